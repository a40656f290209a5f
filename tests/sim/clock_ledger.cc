#include "tests/sim/clock_ledger.h"

#include "tests/sim/toy.h"

namespace tern::sim {

std::string ClockLedger::RecordCounted(const protocol::Cell& cell, const Push& push,
                                       const Weights& new_weights, const Schedule& schedule) {
  std::vector<CountedPush>& entries = pushes_by_cell_[cell];
  const bool is_repeated =
      std::any_of(entries.begin(), entries.end(), [&](const CountedPush& entry) {
        return entry.push.rank == push.rank && entry.push.clock == push.clock;
      });
  const Weights weights_before = entries.empty() ? Weights{} : entries.back().weights_after;
  const uint64_t step = entries.size() / schedule.workers;
  entries.push_back({push, new_weights});
  past_weights_.insert({cell, new_weights.version, new_weights.word});
  counted_words_.insert({cell, push.word});
  if (is_repeated) {
    return "clock " + std::to_string(push.clock) + " of rank " + std::to_string(push.rank) +
           " is counted twice";
  }
  const bool is_plain_sgd = schedule.algorithm == "asgd" || schedule.algorithm == "ssp";
  const Weights expected{weights_before.version + 1,
                         ApplySgd(weights_before.word, {push.word}, RateAt(step))};
  return is_plain_sgd && new_weights != expected ? "the weights are not moved by the push" : "";
}

bool ClockLedger::RestartFrom(const protocol::Cell& cell, uint64_t num_pushes,
                              const Weights& new_weights) {
  std::vector<CountedPush>& entries = pushes_by_cell_[cell];
  if (num_pushes > entries.size()) return false;
  entries.resize(num_pushes);
  return new_weights == (entries.empty() ? Weights{} : entries.back().weights_after);
}

}  // namespace tern::sim
