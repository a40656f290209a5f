// Simulates many schedules (a job with its faults, made from a seed) on two threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/protocol/rounds/lane.h"
#include "tests/sim/schedule.h"

namespace tern::sim {

using MakeSchedule = Schedule (*)(uint64_t seed);

// Simulates the schedules that `make` returns for the seeds from, from + 1, ..., from + count - 1,
// and stops early once `stop_at` schedules have failed. Returns a description of every failure.
std::vector<std::string> PlayAll(MakeSchedule make, uint64_t from, uint64_t count,
                                 const protocol::Safeguards& safeguards, size_t stop_at);

}  // namespace tern::sim
