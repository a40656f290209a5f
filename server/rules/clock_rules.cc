// The table of the rules of algorithms without rounds. A new algorithm adds a line to the table.
#include "server/rules/clock_rules.h"

#include <utility>

namespace tern::server {

namespace {

struct RuleEntry {
  const char* algorithm;
  std::unique_ptr<ClockRule> (*make)(std::unique_ptr<CentralChunk> central, Rate rate);
};

const RuleEntry kTable[] = {
    {"asgd", MakeAsgd}, {"dcasgd_c", MakeDcasgdC},  {"dcasgd_a", MakeDcasgdA},
    {"ssp", MakeSsp},   {"softsync", MakeSoftsync}, {"easgd_async", MakeEasgdAsync},
};

}  // namespace

Result<std::unique_ptr<ClockRule>> MakeClockRule(const setup::Setup& setup,
                                                 const protocol::Chunk& chunk,
                                                 std::span<const float> initial, Rate rate) {
  for (const RuleEntry& entry : kTable) {
    if (setup.job.train().algorithm() != entry.algorithm) continue;
    auto central_chunk = CentralChunk::Make(setup, chunk, initial);
    if (!central_chunk.ok()) return central_chunk.status();
    return entry.make(std::move(*central_chunk), std::move(rate));
  }
  return Status(Code::kBadJob, "train.algorithm '" + setup.job.train().algorithm() +
                                   "' has no rule for pushes without rounds");
}

}  // namespace tern::server
