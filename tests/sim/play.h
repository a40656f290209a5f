// Plays many schedules on two threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/protocol/rounds/lane.h"
#include "tests/sim/schedule.h"

namespace tern::sim {

using MakeSchedule = Schedule (*)(uint64_t seed);

// Plays the schedules of `count` seeds from `from` on, until `stop_at` of them have failed. Returns
// what was wrong with those.
std::vector<std::string> PlayAll(MakeSchedule make, uint64_t from, uint64_t count,
                                 const protocol::Safeguards& safeguards, size_t stop_at);

}  // namespace tern::sim
