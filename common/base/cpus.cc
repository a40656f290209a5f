#include "common/base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "common/base/text.h"

namespace tern {
namespace {

static_assert(kMaxCpu < CPU_SETSIZE);

// The CPUs on which the thread that called BindThreadToCpus was allowed to run before that call.
// Null if BindThreadToCpus has not been called.
std::atomic<const cpu_set_t*> original_cpus{nullptr};

Status SystemError(const std::string& what) {
  return Status(Code::kInternal, Cat("cannot ", what, ": ", std::strerror(errno)));
}

// Parses `text` as the number of one CPU; empty if it is anything else.
std::optional<uint32_t> ParseCpu(std::string_view text) {
  uint32_t cpu = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, cpu);
  if (error != std::errc() || stop != end || cpu > kMaxCpu) return std::nullopt;
  return cpu;
}

}  // namespace

std::optional<std::vector<uint32_t>> ParseCpus(std::string_view text) {
  std::vector<uint32_t> cpus;
  for (size_t item_begin = 0; item_begin <= text.size();) {
    const size_t comma = std::min(text.find(',', item_begin), text.size());
    const std::string_view item = text.substr(item_begin, comma - item_begin);
    const size_t dash = std::min(item.find('-'), item.size());
    const auto first_cpu = ParseCpu(item.substr(0, dash));
    const auto last_cpu = dash == item.size() ? first_cpu : ParseCpu(item.substr(dash + 1));
    if (!first_cpu || !last_cpu || *last_cpu < *first_cpu) return std::nullopt;
    for (uint32_t cpu = *first_cpu; cpu <= *last_cpu; ++cpu) cpus.push_back(cpu);
    item_begin = comma + 1;
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string CpusText(const std::vector<uint32_t>& cpus) {
  std::vector<std::string> items;
  for (size_t i = 0; i < cpus.size(); ++i) {
    const size_t range_begin = i;
    while (i + 1 < cpus.size() && cpus[i + 1] == cpus[i] + 1) ++i;
    items.push_back(i == range_begin ? Cat(cpus[i]) : Cat(cpus[range_begin], '-', cpus[i]));
  }
  return Join(items, ",");
}

Result<std::vector<uint32_t>> CpusOfThisThread() {
  cpu_set_t cpu_set;
  if (sched_getaffinity(0, sizeof cpu_set, &cpu_set) != 0)
    return SystemError("ask which CPUs are allowed");
  std::vector<uint32_t> cpus;
  for (uint32_t cpu = 0; cpu <= kMaxCpu; ++cpu) {
    if (CPU_ISSET(cpu, &cpu_set)) cpus.push_back(cpu);
  }
  return cpus;
}

Status BindThreadToCpus(const std::vector<uint32_t>& cpus) {
  cpu_set_t allowed_set;
  if (sched_getaffinity(0, sizeof allowed_set, &allowed_set) != 0)
    return SystemError("ask which CPUs are allowed");
  cpu_set_t requested_set;
  CPU_ZERO(&requested_set);
  for (const uint32_t cpu : cpus) {
    if (cpu > kMaxCpu || !CPU_ISSET(cpu, &allowed_set)) {
      const auto allowed_cpus = CpusOfThisThread();
      return Status(Code::kBadJob, Cat("saw CPU ", cpu, "; allowed here: ",
                                       allowed_cpus.ok() ? CpusText(*allowed_cpus)
                                                         : allowed_cpus.status().message()));
    }
    CPU_SET(cpu, &requested_set);
  }
  if (sched_setaffinity(0, sizeof requested_set, &requested_set) != 0)
    return SystemError(Cat("bind the thread to the CPUs ", CpusText(cpus), " only"));
  static const cpu_set_t before_binding = allowed_set;
  original_cpus = &before_binding;
  return Ok();
}

// Errors are ignored: the thread then stays bound, which only makes it slower.
void UnbindThread() {
  if (const cpu_set_t* allowed_set = original_cpus)
    sched_setaffinity(0, sizeof *allowed_set, allowed_set);
}

}  // namespace tern
