// Functions that make the rules of algorithms without rounds. A rule defines what a push does to
// the weights. The function of a rule is defined in the file of its algorithm; MakeClockRule calls
// the one that the job's algorithm needs.
#pragma once

#include <memory>

#include "server/rules/clock_rule.h"

namespace tern::server {

std::unique_ptr<ClockRule> MakeAsgd(std::unique_ptr<CentralChunk> central, Rate rate);
std::unique_ptr<ClockRule> MakeDcasgdC(std::unique_ptr<CentralChunk> central, Rate rate);
std::unique_ptr<ClockRule> MakeDcasgdA(std::unique_ptr<CentralChunk> central, Rate rate);
std::unique_ptr<ClockRule> MakeSsp(std::unique_ptr<CentralChunk> central, Rate rate);
std::unique_ptr<ClockRule> MakeSoftsync(std::unique_ptr<CentralChunk> central, Rate rate);
std::unique_ptr<ClockRule> MakeEasgdAsync(std::unique_ptr<CentralChunk> central, Rate rate);

// Makes the rule of the job's algorithm for one chunk. kBadJob if the algorithm has no such rule,
// or if keys of the job contradict each other.
Result<std::unique_ptr<ClockRule>> MakeClockRule(const setup::Setup& setup,
                                                 const protocol::Chunk& chunk,
                                                 std::span<const float> initial, Rate rate);

}  // namespace tern::server
