#include "tests/sim/clock_ledger.h"

#include "tests/sim/toy.h"

namespace tern::sim {

std::string ClockLedger::RecordCounted(const protocol::Cell& cell, const Push& push,
                                       const Weights& now, const Schedule& schedule) {
  std::vector<Entry>& entries = pushes_of_[cell];
  const bool is_repeated = std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) {
    return entry.push.rank == push.rank && entry.push.clock == push.clock;
  });
  const Weights weights_before = entries.empty() ? Weights{} : entries.back().weights_after;
  const uint64_t step = entries.size() / schedule.workers;
  entries.push_back({push, now});
  states_.insert({cell, now.version, now.word});
  counted_.insert({cell, push.word});
  if (is_repeated) {
    return "clock " + std::to_string(push.clock) + " of rank " + std::to_string(push.rank) +
           " is counted twice";
  }
  const bool is_plain_sgd = schedule.algorithm == "asgd" || schedule.algorithm == "ssp";
  const Weights expected{weights_before.version + 1,
                         ApplySgd(weights_before.word, {push.word}, RateAt(step))};
  return is_plain_sgd && now != expected ? "the weights are not moved by the push" : "";
}

bool ClockLedger::RestartFrom(const protocol::Cell& cell, uint64_t total, const Weights& now) {
  std::vector<Entry>& entries = pushes_of_[cell];
  if (total > entries.size()) return false;
  entries.resize(total);
  return now == (entries.empty() ? Weights{} : entries.back().weights_after);
}

}  // namespace tern::sim
