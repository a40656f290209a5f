// The instruction sets ("targets") for which the library Highway compiles the vectorized kernels.
// Each call of a kernel uses the best target that the CPU supports, so that one binary runs on
// different CPUs. On all targets the kernels of kernels/codes and kernels/update give the same
// bits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::kernels {

// The names of the targets in this build that this CPU supports, best first, for example "AVX2".
std::vector<std::string> CpuTargets();

// Makes all kernels of the process use one target, or again the best one if `name` is empty.
// Returns false, and makes them use the best one, if there is no target of that name. REQUIRES that
// no kernel is running.
bool UseCpuTargetForTest(std::string_view name);

}  // namespace tern::kernels
