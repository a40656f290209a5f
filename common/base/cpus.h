// Which CPUs a thread may run on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tern {

// A larger number is none of a CPU.
inline constexpr uint32_t kMaxCpu = 1023;

// "0-3,8" -> 0, 1, 2, 3, 8: rising, each once. Nothing where the text is no such list.
std::optional<std::vector<uint32_t>> ParseCpus(std::string_view text);
// The other way: "0-3,8". REQUIRES rising numbers.
std::string CpusText(const std::vector<uint32_t>& cpus);

// Those that the calling thread may run on.
Result<std::vector<uint32_t>> CpusOfThisThread();

// From now on the calling thread runs on these CPUs only, and so does what it starts: OpenMP's team
// is, once it has been started by this thread's first parallel region. A Thread (threads.h) is not:
// it runs wherever this thread could before. Before others ask for it, from one thread of a
// process. kBadJob, with the CPUs that are allowed, where this thread may not run on one of them.
Status RunOnlyOn(const std::vector<uint32_t>& cpus);

// What a Thread begins with: takes back what RunOnlyOn did to the thread that started it.
void RunAnywhere();

}  // namespace tern
