#include "client/train/figures.h"

#include <algorithm>

#include "common/base/hash.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/protocol/rounds/cells.h"

namespace tern::client {

bool FiguresExchange::EvaluationIsDue(uint64_t steps) const {
  const uint64_t every = setup_.job.evaluation().every_steps();
  return every != 0 && steps > 0 && steps % every == 0;
}

bool FiguresExchange::IsDue(uint64_t steps) const {
  return steps > 0 &&
         (steps % setup_.job.faults().compare_every_steps() == 0 || EvaluationIsDue(steps));
}

Result<pb::Figures> FiguresExchange::Compare() {
  TERN_RETURN_IF_ERROR(replica_.CopyToHost());
  pb::Figures mine;
  mine.set_parameters_hash(replica_.Hash());
  const Gradient::Losses losses = gradient_.TakeLosses();
  mine.set_train_loss(losses.sum);
  mine.set_train_samples(losses.samples);
  mine.mutable_statistics()->Add(replica_.statistics().begin(), replica_.statistics().end());
  return mine;
}

Result<pb::Figures> FiguresExchange::Evaluate(bool last) {
  const auto own = std::lower_bound(present_.begin(), present_.end(), rank_);
  pb::Figures mine;
  if (own == present_.end() || *own != rank_)
    return mine;  // this worker joined after the comparison, so it has no part of the test set
  const auto part = static_cast<uint32_t>(own - present_.begin());
  const auto parts = static_cast<uint32_t>(present_.size());
  const bool counts_confusion = last && setup_.plan.confusion > 0;
  Confusion confusion;
  const Result<Score> score =
      compute_.Evaluate(part, parts, counts_confusion ? &confusion : nullptr);
  if (!score.ok()) return score.status();
  mine.set_test_loss(score->loss);
  mine.set_test_correct(score->correct);
  mine.set_test_top5_correct(score->among_five);
  mine.set_test_samples(score->samples);
  for (const uint64_t count : confusion) mine.add_confusion(static_cast<uint32_t>(count));
  return mine;
}

Status FiguresExchange::OnAnswer(const Answer& answer, uint64_t steps) {
  pb::FiguresOfAll all;
  if (!all.ParseFromArray(answer.payload.data(), static_cast<int>(answer.payload.size())))
    return Status(Code::kMismatch, "the figures of all workers do not parse");
  const bool compared = answer.cell.chunk == protocol::kCompare;
  if (compared) present_.clear();
  std::vector<pb::Figures> by_rank(all.by_rank_size());
  for (int rank = 0; rank < all.by_rank_size(); ++rank) {
    if (!by_rank[rank].ParseFromString(all.by_rank(rank)))
      return Status(Code::kMismatch, Cat("figures of worker ", rank, " do not parse"));
    if (compared && !all.by_rank(rank).empty()) present_.push_back(static_cast<uint32_t>(rank));
  }
  if (compared) return OnCompared(by_rank, steps);
  OnEvaluated(by_rank, steps);
  return Ok();
}

Status FiguresExchange::OnCompared(const std::vector<pb::Figures>& by_rank, uint64_t steps) {
  compared_ = pb::Figures();
  compared_.set_parameters_hash(replica_.Hash());
  for (const uint32_t rank : present_) {
    const pb::Figures& one = by_rank[rank];
    const uint64_t first = by_rank[present_.front()].parameters_hash();
    // In a job without rounds, workers may hold different weights.
    if (setup_.plan.rounds && one.parameters_hash() != first) {
      return Status(Code::kMismatch, Cat("the replicas differ after step ", steps, ": worker ",
                                         present_.front(), " has hash ", Hex(first), ", worker ",
                                         rank, " has ", Hex(one.parameters_hash())));
    }
    compared_.set_train_loss(compared_.train_loss() + one.train_loss());
    compared_.set_train_samples(compared_.train_samples() + one.train_samples());
  }
  return AverageStatistics(by_rank);
}

Status FiguresExchange::AverageStatistics(const std::vector<pb::Figures>& by_rank) {
  const models::ParameterTable& table = setup_.table;
  std::vector<double> sums(table.statistics_total);
  for (const uint32_t rank : present_) {
    const auto& theirs = by_rank[rank].statistics();
    if (static_cast<size_t>(theirs.size()) != sums.size()) {
      return Status(Code::kMismatch, Cat("worker ", rank, " has ", theirs.size(),
                                         " statistics of batch norms, this one ", sums.size()));
    }
    for (size_t i = 0; i + 1 < table.statistics.size(); i += 2) {
      const models::Statistic &mean = table.statistics[i], &variance = table.statistics[i + 1];
      for (uint64_t c = 0; c < mean.count; ++c) {
        const double m = theirs[static_cast<int>(mean.offset + c)];
        sums[mean.offset + c] += m;
        sums[variance.offset + c] += theirs[static_cast<int>(variance.offset + c)] + m * m;
      }
    }
  }
  const auto n = static_cast<double>(present_.size());
  std::vector<float>& means = replica_.mean_statistics();
  for (size_t i = 0; i + 1 < table.statistics.size(); i += 2) {
    const models::Statistic &mean = table.statistics[i], &variance = table.statistics[i + 1];
    for (uint64_t c = 0; c < mean.count; ++c) {
      const double m = sums[mean.offset + c] / n;
      means[mean.offset + c] = static_cast<float>(m);
      means[variance.offset + c] =
          static_cast<float>(std::max(0.0, sums[variance.offset + c] / n - m * m));
    }
  }
  return Ok();
}

void FiguresExchange::OnEvaluated(const std::vector<pb::Figures>& by_rank, uint64_t steps) {
  pb::Figures total = compared_;
  // In a job without rounds, each worker has pulled the servers' last weights since the comparison.
  if (!setup_.plan.rounds) total.set_parameters_hash(replica_.Hash());
  confusion_.clear();
  for (const pb::Figures& one : by_rank) {
    confusion_.resize(std::max(confusion_.size(), static_cast<size_t>(one.confusion_size())));
    for (int i = 0; i < one.confusion_size(); ++i) confusion_[i] += one.confusion(i);
    total.set_test_loss(total.test_loss() + one.test_loss());
    total.set_test_correct(total.test_correct() + one.test_correct());
    total.set_test_top5_correct(total.test_top5_correct() + one.test_top5_correct());
    total.set_test_samples(total.test_samples() + one.test_samples());
  }
  if (total.test_samples() == 0) return;
  const auto samples = static_cast<double>(total.test_samples());
  LOG(INFO) << "after step " << steps << ": test accuracy "
            << static_cast<double>(total.test_correct()) / samples << " of " << total.test_samples()
            << " (" << static_cast<double>(total.test_top5_correct()) / samples
            << " top-5), test loss " << total.test_loss() / samples << ", training loss "
            << compared_.train_loss() /
                   static_cast<double>(std::max<uint64_t>(1, compared_.train_samples()))
            << " of " << compared_.train_samples() << " since the previous comparison"
            << (setup_.plan.rounds ? Cat(", replicas agree on hash ", Hex(total.parameters_hash()))
                                   : std::string());
  newest_ = total;
}

Status FiguresExchange::WriteConfusion() const {
  if (setup_.plan.confusion == 0 || confusion_.size() != setup_.plan.confusion) return Ok();
  return client::WriteConfusion(setup_.job.output_dir(), confusion_, setup_.net.classes());
}

}  // namespace tern::client
