// The instruction sets that the fast kernels are built for. Each call of a kernel takes the best
// one that the CPU has: one binary for every machine, and the same bits from all of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::kernels {

// Those that this build holds and this CPU runs, best first, as "AVX3", "AVX2", "SSE4", "NEON".
std::vector<std::string> CpuTargets();

// Binds the kernels of the whole process to one of them; an empty name frees them again.
// False, and the kernels free, if there is none of that name. REQUIRES no kernel running.
bool UseCpuTargetForTest(std::string_view name);

}  // namespace tern::kernels
