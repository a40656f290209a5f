#include "tests/sim/clock_ledger.h"

#include "tests/sim/toy.h"

namespace tern::sim {

std::string ClockLedger::RecordCounted(const protocol::Cell& cell, const Push& push,
                                       const Weights& now, const Schedule& schedule) {
  std::vector<Entry>& past = pushes_of_[cell];
  const bool is_repeated = std::any_of(past.begin(), past.end(), [&](const Entry& one) {
    return one.push.rank == push.rank && one.push.clock == push.clock;
  });
  const Weights before = past.empty() ? Weights{} : past.back().after;
  const uint64_t step = past.size() / schedule.workers;
  past.push_back({push, now});
  states_.insert({cell, now.version, now.word});
  counted_.insert({cell, push.word});
  if (is_repeated) {
    return "clock " + std::to_string(push.clock) + " of rank " + std::to_string(push.rank) +
           " is counted twice";
  }
  const bool is_plain_sgd = schedule.algorithm == "asgd" || schedule.algorithm == "ssp";
  const Weights expected{before.version + 1, ApplySgd(before.word, {push.word}, RateAt(step))};
  return is_plain_sgd && now != expected ? "the weights are not moved by the push" : "";
}

bool ClockLedger::RestartFrom(const protocol::Cell& cell, uint64_t total, const Weights& now) {
  std::vector<Entry>& past = pushes_of_[cell];
  if (total > past.size()) return false;
  past.resize(total);
  return now == (past.empty() ? Weights{} : past.back().after);
}

}  // namespace tern::sim
