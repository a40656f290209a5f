// The constructors of the rules, one rule per file, for the table in clock_rule.cc.
#pragma once

#include <memory>

#include "server/clock_rule.h"

namespace tern::server {

std::unique_ptr<ClockRule> MakeAsgd(std::unique_ptr<CentralChunk> central, Rate rate);
std::unique_ptr<ClockRule> MakeDcasgdC(std::unique_ptr<CentralChunk> central, Rate rate);
std::unique_ptr<ClockRule> MakeDcasgdA(std::unique_ptr<CentralChunk> central, Rate rate);
std::unique_ptr<ClockRule> MakeSsp(std::unique_ptr<CentralChunk> central, Rate rate);
std::unique_ptr<ClockRule> MakeSoftsync(std::unique_ptr<CentralChunk> central, Rate rate);
std::unique_ptr<ClockRule> MakeEasgdAsync(std::unique_ptr<CentralChunk> central, Rate rate);

}  // namespace tern::server
