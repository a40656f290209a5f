// The table of the rules. A new rule adds a line with its maker.
#include "server/rules/clock_rules.h"

#include <utility>

namespace tern::server {

namespace {

struct Row {
  const char* algorithm;
  std::unique_ptr<ClockRule> (*make)(std::unique_ptr<CentralChunk> central, Rate rate);
};

const Row kTable[] = {
    {"asgd", MakeAsgd}, {"dcasgd_c", MakeDcasgdC},  {"dcasgd_a", MakeDcasgdA},
    {"ssp", MakeSsp},   {"softsync", MakeSoftsync}, {"easgd_async", MakeEasgdAsync},
};

}  // namespace

Result<std::unique_ptr<ClockRule>> MakeClockRule(const setup::Setup& setup,
                                                 const protocol::Chunk& chunk,
                                                 std::span<const float> initial, Rate rate) {
  for (const Row& row : kTable) {
    if (setup.job.train().algorithm() != row.algorithm) continue;
    auto central = CentralChunk::Make(setup, chunk, initial);
    if (!central.ok()) return central.status();
    return row.make(std::move(*central), std::move(rate));
  }
  return Status(Code::kBadJob, "train.algorithm '" + setup.job.train().algorithm() +
                                   "' has no rule for pushes without rounds");
}

}  // namespace tern::server
