// The processor of this machine and its clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proto/job.pb.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/members.h"

namespace tern::tools {

// How many threads compute on CPUs, in all workers here.
uint32_t NumComputeThreads(const pb::Job& job, const Members& members);

// `threads`: NumComputeThreads. `allowed`: the CPUs on which processes may
// run. `quota`: how many of them the control group lets work all the time; nullopt: all.
Finding JudgeThreads(uint32_t threads, uint32_t allowed, std::optional<double> quota);
// `wants_bf16`: whether a worker here computes in bf16 on its CPU.
Finding JudgeProcessor(bool has_avx2, bool has_avx512, bool wants_bf16);
// `is_synchronized`: nullopt if the kernel does not say.
Finding JudgeClock(std::optional<bool> is_synchronized, bool is_of_one_machine);

// All findings about CPUs and GPUs. `quota`: as for JudgeThreads.
Findings CheckCores(const pb::Job& job, const Members& members, std::optional<double> quota);
// Asks the kernel whether it synchronizes the clock.
Finding CheckClock(const pb::Job& job, const Members& members);

}  // namespace tern::tools
