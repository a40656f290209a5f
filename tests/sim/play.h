// Simulates many schedules (each a job with its faults, made from a seed) on two threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/protocol/rounds/lane.h"
#include "tests/sim/schedule.h"

namespace tern::sim {

using MakeSchedule = Schedule (*)(uint64_t seed);

// Simulates the schedules that make_schedule returns for `count` seeds from `first_seed` on. Stops
// early once `max_failures` schedules have failed. Returns a description of every failure.
std::vector<std::string> PlayAll(MakeSchedule make_schedule, uint64_t first_seed, uint64_t count,
                                 const protocol::Safeguards& safeguards, size_t max_failures);

}  // namespace tern::sim
