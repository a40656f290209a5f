#include "client/train/figures.h"

#include <algorithm>

#include "common/base/hash.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/protocol/rounds/cells.h"

namespace tern::client {

namespace {

// How much of a path and of an error the figures have.
constexpr size_t kMaxPathBytes = 200, kMaxErrorBytes = 400;

}  // namespace

bool FiguresExchange::EvaluationIsDue(uint64_t steps) const {
  const uint64_t every_steps = setup_.job.evaluation().every_steps();
  return every_steps != 0 && steps > 0 && steps % every_steps == 0;
}

bool FiguresExchange::IsDue(uint64_t steps) const {
  return steps > 0 &&
         (steps % setup_.job.faults().compare_every_steps() == 0 || EvaluationIsDue(steps));
}

Result<pb::Figures> FiguresExchange::MakeComparisonFigures() {
  TERN_RETURN_IF_ERROR(replica_.CopyToHost());
  pb::Figures own_figures;
  own_figures.set_parameters_hash(replica_.Hash());
  const Gradient::Losses losses = gradient_.TakeLosses();
  own_figures.set_train_loss(losses.sum);
  own_figures.set_train_samples(losses.samples);
  own_figures.mutable_statistics()->Add(replica_.statistics().begin(), replica_.statistics().end());
  return own_figures;
}

Result<pb::Figures> FiguresExchange::Evaluate(bool is_last) {
  evaluation_status_ = Ok();
  const auto own_rank = std::lower_bound(present_ranks_.begin(), present_ranks_.end(), rank_);
  pb::Figures own_figures;
  if (own_rank == present_ranks_.end() || *own_rank != rank_)
    return own_figures;  // This worker joined after the comparison.
  const auto part = static_cast<uint32_t>(own_rank - present_ranks_.begin());
  const auto num_parts = static_cast<uint32_t>(present_ranks_.size());
  const bool counts_confusion = is_last && setup_.plan.num_confusion_entries > 0;
  Confusion confusion;
  const Result<Score> score =
      compute_.Evaluate(part, num_parts, counts_confusion ? &confusion : nullptr);
  if (is_last && computes_ && score.status().code() == Code::kBadData) {
    evaluation_status_ = score.status();
    own_figures.set_test_failed(true);
    return own_figures;
  }
  if (!score.ok()) return score.status();
  own_figures.set_test_loss(score->loss);
  own_figures.set_test_correct(score->correct);
  own_figures.set_test_top5_correct(score->among_five);
  own_figures.set_test_samples(score->samples);
  if (record_.is_used()) *own_figures.mutable_evaluations() = record_.Get();
  for (const uint64_t count : confusion) own_figures.add_confusion(static_cast<uint32_t>(count));
  return own_figures;
}

Status FiguresExchange::OnAnswer(const Answer& answer, uint64_t steps) {
  pb::FiguresOfAll figures_of_all;
  if (!figures_of_all.ParseFromArray(answer.payload.data(),
                                     static_cast<int>(answer.payload.size())))
    return Status(Code::kMismatch, "the figures of all workers do not parse");
  const bool is_comparison = answer.cell.chunk == protocol::kCompare;
  if (is_comparison) present_ranks_.clear();
  std::vector<pb::Figures> by_rank(figures_of_all.by_rank_size());
  for (int rank = 0; rank < figures_of_all.by_rank_size(); ++rank) {
    if (!by_rank[rank].ParseFromString(figures_of_all.by_rank(rank)))
      return Status(Code::kMismatch, Cat("figures of worker ", rank, " do not parse"));
    if (is_comparison && !figures_of_all.by_rank(rank).empty())
      present_ranks_.push_back(static_cast<uint32_t>(rank));
  }
  if (is_comparison) return OnCompared(by_rank, steps);
  if (answer.cell.chunk != protocol::kEvaluate) {
    OnWritten(by_rank);
    return Ok();
  }
  const auto lost_rank =
      std::find_if(present_ranks_.begin(), present_ranks_.end(), [&](uint32_t rank) {
        return rank >= by_rank.size() || figures_of_all.by_rank(static_cast<int>(rank)).empty();
      });
  const bool is_whole = lost_rank == present_ranks_.end();
  LOG_IF(WARNING, computes_ && !is_whole)
      << "worker " << *lost_rank << " was lost before it had evaluated its part of the test set: "
      << "the evaluation after step " << steps << " has no scores";
  OnEvaluated(by_rank, is_whole, steps);
  return Ok();
}

pb::Figures FiguresExchange::MakeWrittenFigures(const std::string& path, const Status& error) {
  pb::Figures own_figures;
  if (!path.empty()) own_figures.set_weights_path(Printable(path, kMaxPathBytes));
  if (!error.ok())
    own_figures.set_weights_error(PrintableSentence(error.message(), kMaxErrorBytes));
  return own_figures;
}

void FiguresExchange::OnWritten(const std::vector<pb::Figures>& by_rank) {
  newest_evaluation_.clear_weights_path();
  for (uint32_t rank = 0; rank < by_rank.size(); ++rank) {
    const pb::Figures& figures = by_rank[rank];
    if (figures.has_weights_error() && !newest_evaluation_.has_weights_error()) {
      newest_evaluation_.set_weights_error(
          Cat("worker ", rank, ": ", PrintableSentence(figures.weights_error(), kMaxErrorBytes)));
    }
    if (!figures.has_weights_path() || newest_evaluation_.has_weights_path()) continue;
    newest_evaluation_.set_weights_path(PrintableSentence(figures.weights_path(), kMaxPathBytes));
    newest_evaluation_.set_weights_rank(rank);
  }
}

Status FiguresExchange::OnCompared(const std::vector<pb::Figures>& by_rank, uint64_t steps) {
  compared_sums_ = pb::Figures();
  compared_sums_.set_parameters_hash(replica_.Hash());
  for (const uint32_t rank : present_ranks_) {
    const pb::Figures& figures = by_rank[rank];
    const uint64_t first_hash = by_rank[present_ranks_.front()].parameters_hash();
    // In a job without rounds, workers may hold different weights.
    if (setup_.plan.has_rounds && figures.parameters_hash() != first_hash) {
      return Status(Code::kMismatch,
                    Cat("the replicas differ after step ", steps, ": worker ",
                        present_ranks_.front(), " has hash ", Hex(first_hash), ", worker ", rank,
                        " has ", Hex(figures.parameters_hash())));
    }
    compared_sums_.set_train_loss(compared_sums_.train_loss() + figures.train_loss());
    compared_sums_.set_train_samples(compared_sums_.train_samples() + figures.train_samples());
  }
  return AverageStatistics(by_rank);
}

Status FiguresExchange::AverageStatistics(const std::vector<pb::Figures>& by_rank) {
  const models::ParameterTable& table = setup_.table;
  std::vector<double> sums(table.statistics_total);
  for (const uint32_t rank : present_ranks_) {
    const auto& worker_statistics = by_rank[rank].statistics();
    if (static_cast<size_t>(worker_statistics.size()) != sums.size()) {
      return Status(Code::kMismatch, Cat("worker ", rank, " has ", worker_statistics.size(),
                                         " statistics of batch norms, this one ", sums.size()));
    }
    for (size_t i = 0; i + 1 < table.statistics.size(); i += 2) {
      const models::Statistic &mean_row = table.statistics[i],
                              &variance_row = table.statistics[i + 1];
      for (uint64_t c = 0; c < mean_row.count; ++c) {
        const double mean = worker_statistics[static_cast<int>(mean_row.offset + c)];
        sums[mean_row.offset + c] += mean;
        sums[variance_row.offset + c] +=
            worker_statistics[static_cast<int>(variance_row.offset + c)] + mean * mean;
      }
    }
  }
  const auto num_workers = static_cast<double>(present_ranks_.size());
  std::vector<float>& means = replica_.mean_statistics();
  for (size_t i = 0; i + 1 < table.statistics.size(); i += 2) {
    const models::Statistic &mean_row = table.statistics[i],
                            &variance_row = table.statistics[i + 1];
    if (mean_row.is_frozen) {  // The average of equal variances would be off by a rounding error.
      for (const models::Statistic* row : {&mean_row, &variance_row})
        std::copy_n(&replica_.statistics()[row->offset], row->count, &means[row->offset]);
      continue;
    }
    for (uint64_t c = 0; c < mean_row.count; ++c) {
      const double mean = sums[mean_row.offset + c] / num_workers;
      means[mean_row.offset + c] = static_cast<float>(mean);
      means[variance_row.offset + c] = static_cast<float>(
          std::max(0.0, sums[variance_row.offset + c] / num_workers - mean * mean));
    }
  }
  return Ok();
}

void FiguresExchange::OnEvaluated(const std::vector<pb::Figures>& by_rank, bool is_whole,
                                  uint64_t steps) {
  pb::Figures total = compared_sums_;
  // In a job without rounds, each worker has pulled the servers' last weights since the comparison.
  if (!setup_.plan.has_rounds) total.set_parameters_hash(replica_.Hash());
  confusion_.clear();
  bool has_failed = !is_whole;
  for (const pb::Figures& figures : by_rank) {
    has_failed = has_failed || figures.test_failed();
    confusion_.resize(std::max(confusion_.size(), static_cast<size_t>(figures.confusion_size())));
    for (int i = 0; i < figures.confusion_size(); ++i) confusion_[i] += figures.confusion(i);
    total.set_test_loss(total.test_loss() + figures.test_loss());
    total.set_test_correct(total.test_correct() + figures.test_correct());
    total.set_test_top5_correct(total.test_top5_correct() + figures.test_top5_correct());
    total.set_test_samples(total.test_samples() + figures.test_samples());
  }
  if (has_failed || total.test_samples() == 0) return OnEvaluatedWithoutScores(has_failed, total);
  const auto num_samples = static_cast<double>(total.test_samples());
  LOG(INFO) << "after step " << steps << ": test accuracy "
            << static_cast<double>(total.test_correct()) / num_samples << " of "
            << total.test_samples() << " ("
            << static_cast<double>(total.test_top5_correct()) / num_samples << " top-5), test loss "
            << total.test_loss() / num_samples << ", training loss "
            << compared_sums_.train_loss() /
                   static_cast<double>(std::max<uint64_t>(1, compared_sums_.train_samples()))
            << " of " << compared_sums_.train_samples() << " since the previous comparison"
            << (setup_.plan.has_rounds
                    ? Cat(", replicas agree on hash ", Hex(total.parameters_hash()))
                    : std::string());
  record_.Add(by_rank, total, steps);
  if (record_.is_used()) *total.mutable_evaluations() = record_.Get();
  newest_evaluation_ = total;
}

void FiguresExchange::OnEvaluatedWithoutScores(bool has_failed, pb::Figures total) {
  if (!computes_) return;  // The job evaluates nothing.
  if (!has_failed) {
    evaluation_status_ =
        Status(Code::kBadData, "all test images are damaged; expected one that can be decoded");
  }
  // The scores are of a part of the test set. Only whether the sum of the losses is finite counts.
  confusion_.clear();
  total.clear_test_samples();
  if (record_.is_used()) *total.mutable_evaluations() = record_.Get();
  newest_evaluation_ = total;
}

Status FiguresExchange::WriteClasses() const {
  const std::string& folder = setup_.job.output_dir();
  const std::vector<std::string> names = compute_.class_names();
  TERN_RETURN_IF_ERROR(client::WriteClasses(folder, names));
  if (setup_.plan.num_confusion_entries == 0 ||
      confusion_.size() != setup_.plan.num_confusion_entries)
    return Ok();
  return client::WriteConfusion(folder, "confusion.csv", confusion_, setup_.net.classes(), names);
}

}  // namespace tern::client
