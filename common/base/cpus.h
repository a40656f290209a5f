// CPU affinity of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tern {

// The highest CPU number that is supported.
inline constexpr uint32_t kMaxCpu = 1023;

// Parses a list of CPUs: "0-3,8" gives 0, 1, 2, 3, 8, ascending and without repeats. Nullopt if the
// text is not such a list.
std::optional<std::vector<uint32_t>> ParseCpus(std::string_view text);
// Formats a list of CPUs for ParseCpus: "0-3,8". REQUIRES ascending numbers.
std::string CpusText(const std::vector<uint32_t>& cpus);

// The CPUs on which the calling thread may run.
Result<std::vector<uint32_t>> CpusOfThisThread();

// Binds the calling thread to these CPUs. The OpenMP team that this thread starts later inherits
// the binding; a Thread (threads.h) does not. Call at most once per process. kBadJob, with the
// allowed CPUs, if this thread may not run on one of `cpus`.
Status BindThreadToCpus(const std::vector<uint32_t>& cpus);

// Undoes BindThreadToCpus for the calling thread. Every Thread (threads.h) calls this when it
// starts.
void UnbindThread();

}  // namespace tern
