// Which CPUs a thread may run on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tern {

// The highest number of a CPU.
inline constexpr uint32_t kMaxCpu = 1023;

// "0-3,8" -> 0, 1, 2, 3, 8: rising, without repeats. Nothing if the text is not such a list.
std::optional<std::vector<uint32_t>> ParseCpus(std::string_view text);
// The reverse: "0-3,8". REQUIRES rising numbers.
std::string CpusText(const std::vector<uint32_t>& cpus);

// The CPUs that the calling thread may run on.
Result<std::vector<uint32_t>> CpusOfThisThread();

// Binds the calling thread to these CPUs. OpenMP's team inherits that, once this thread's first
// parallel region has started it; a Thread (threads.h) does not: it runs wherever this thread could
// before. Call once per process, before other threads depend on it. kBadJob, with the CPUs that are
// allowed, if this thread may not run on one of them.
Status RunOnlyOn(const std::vector<uint32_t>& cpus);

// Called first in every Thread: undoes the RunOnlyOn of the thread that started it.
void RunAnywhere();

}  // namespace tern
