#include "worker/train/figures.h"

#include <optional>

#include "common/base/hash.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/config/algorithms.h"

namespace tern::train {

bool Figures::EvaluationIsDue(uint64_t steps) const {
  const uint64_t every = setup_.job.evaluation().every_steps();
  return every != 0 && steps > 0 && steps % every == 0;
}

bool Figures::Due(uint64_t steps) const {
  return steps > 0 &&
         (steps % setup_.job.faults().compare_every_steps() == 0 || EvaluationIsDue(steps));
}

pb::Figures Figures::Measure(bool evaluate) {
  pb::Figures mine;
  mine.set_parameters_hash(replica_.Hash());
  const Gradient::Losses losses = gradient_.TakeLosses();
  mine.set_train_loss(losses.sum);
  mine.set_train_samples(losses.samples);
  if (!evaluate) return mine;
  const engine::Score score = evaluate_.Run();
  mine.set_test_loss(score.loss);
  mine.set_test_correct(score.correct);
  mine.set_test_samples(score.samples);
  return mine;
}

Status Figures::OnAnswer(const Answer& answer, uint64_t steps) {
  pb::FiguresOfAll all;
  if (!all.ParseFromArray(answer.payload.data(), static_cast<int>(answer.payload.size())))
    return Status(Code::kMismatch, "the figures of all workers do not parse");
  // Without rounds no two workers need hold the same weights.
  const bool agree = config::TraitsOf(setup_.job.train())->closes() == pb::AlgorithmTraits::all_come;
  pb::Figures total;
  std::optional<std::pair<int, uint64_t>> first;  // rank, hash
  for (int rank = 0; rank < all.by_rank_size(); ++rank) {
    if (all.by_rank(rank).empty()) continue;  // took no part
    pb::Figures one;
    if (!one.ParseFromString(all.by_rank(rank)))
      return Status(Code::kMismatch, Cat("figures of worker ", rank, " do not parse"));
    if (!first.has_value()) first = {rank, one.parameters_hash()};
    lowest_ = static_cast<uint32_t>(first->first);
    if (agree && one.parameters_hash() != first->second) {
      return Status(Code::kMismatch,
                    Cat("the replicas differ after step ", steps, ": worker ", first->first,
                        " has hash ", Hex(first->second), ", worker ", rank, " has ",
                        Hex(one.parameters_hash())));
    }
    total.set_train_loss(total.train_loss() + one.train_loss());
    total.set_train_samples(total.train_samples() + one.train_samples());
    total.set_test_loss(total.test_loss() + one.test_loss());
    total.set_test_correct(total.test_correct() + one.test_correct());
    total.set_test_samples(total.test_samples() + one.test_samples());
  }
  total.set_parameters_hash(replica_.Hash());
  if (total.test_samples() == 0) return Ok();
  const auto samples = static_cast<double>(total.test_samples());
  LOG(INFO) << "after step " << steps << ": test accuracy "
            << static_cast<double>(total.test_correct()) / samples << " of "
            << total.test_samples() << ", test loss " << total.test_loss() / samples
            << (agree ? Cat(", replicas agree on hash ", Hex(first->second)) : std::string());
  newest_ = total;
  return Ok();
}

}  // namespace tern::train
