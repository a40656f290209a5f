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
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, comma - at);
    const size_t dash = std::min(item.find('-'), item.size());
    const auto first = ParseCpu(item.substr(0, dash));
    const auto last = dash == item.size() ? first : ParseCpu(item.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    for (uint32_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    at = comma + 1;
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string CpusText(const std::vector<uint32_t>& cpus) {
  std::vector<std::string> items;
  for (size_t i = 0; i < cpus.size(); ++i) {
    const size_t first = i;
    while (i + 1 < cpus.size() && cpus[i + 1] == cpus[i] + 1) ++i;
    items.push_back(i == first ? Cat(cpus[i]) : Cat(cpus[first], '-', cpus[i]));
  }
  return Join(items, ",");
}

Result<std::vector<uint32_t>> CpusOfThisThread() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return SystemError("ask which CPUs are allowed");
  std::vector<uint32_t> cpus;
  for (uint32_t cpu = 0; cpu <= kMaxCpu; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

Status BindThreadToCpus(const std::vector<uint32_t>& cpus) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return SystemError("ask which CPUs are allowed");
  cpu_set_t requested;
  CPU_ZERO(&requested);
  for (const uint32_t cpu : cpus) {
    if (cpu > kMaxCpu || !CPU_ISSET(cpu, &allowed)) {
      const auto allowed_cpus = CpusOfThisThread();
      return Status(Code::kBadJob, Cat("saw CPU ", cpu, "; allowed here: ",
                                       allowed_cpus.ok() ? CpusText(*allowed_cpus)
                                                         : allowed_cpus.status().message()));
    }
    CPU_SET(cpu, &requested);
  }
  if (sched_setaffinity(0, sizeof requested, &requested) != 0)
    return SystemError(Cat("bind the thread to the CPUs ", CpusText(cpus), " only"));
  static const cpu_set_t before_binding = allowed;
  original_cpus = &before_binding;
  return Ok();
}

// Errors are ignored: the thread then stays bound, which only makes it slower.
void UnbindThread() {
  if (const cpu_set_t* allowed = original_cpus) sched_setaffinity(0, sizeof *allowed, allowed);
}

}  // namespace tern
