// The instruction sets that the vectorized kernels are compiled for. Each call of a kernel uses the
// best one that the CPU supports: one binary for every machine, with the same bits from all of
// them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::kernels {

// The targets in this build that this CPU supports, best first, as "AVX3", "AVX2", "SSE4", "NEON".
std::vector<std::string> CpuTargets();

// Pins all kernels of the process to one target; an empty name unpins them. Returns false, with the
// kernels unpinned, if there is no target of that name. REQUIRES that no kernel is running.
bool UseCpuTargetForTest(std::string_view name);

}  // namespace tern::kernels
