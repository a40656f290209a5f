#include "common/base/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>

namespace tern {

namespace {

Time TimeOf(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

// When this process started, in seconds since 1970; 0 if /proc does not say.
double StartTime() {
  std::ifstream stat("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  // The second field, the program's name in parentheses, may have spaces. Field 22 is the start in
  // clock ticks since the machine was started.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  std::ifstream system_stat("/proc/stat");
  double boot_time = 0;
  for (std::string line; std::getline(system_stat, line);) {
    if (line.starts_with("btime ")) boot_time = std::strtod(line.c_str() + 6, nullptr);
  }
  const double ticks = std::strtod(field.c_str(), nullptr);
  return boot_time == 0 ? 0 : boot_time + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessMetrics::ProcessMetrics(Registry& registry)
    : cpu_time_(registry.GetTimeCounter("process_cpu_seconds_total",
                                        "CPU time of all threads, in user and kernel mode")),
      resident_bytes_(
          registry.GetGauge("process_resident_memory_bytes", "Memory that is in use now")),
      virtual_bytes_(registry.GetGauge("process_virtual_memory_bytes", "Address space in use")),
      open_fds_(registry.GetGauge("process_open_fds", "Open file descriptors")),
      max_fds_(registry.GetGauge("process_max_fds", "The most that may be open")) {
  registry.GetGauge("process_start_time_seconds", "When the process started, since 1970")
      .Set(StartTime());
  Update();
}

void ProcessMetrics::Update() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    cpu_time_.Add(TimeOf(usage.ru_utime) + TimeOf(usage.ru_stime) - cpu_time_.value());
  std::ifstream statm("/proc/self/statm");
  double pages = 0, resident_pages = 0;
  if (statm >> pages >> resident_pages) {
    const auto page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
    virtual_bytes_.Set(pages * page_bytes);
    resident_bytes_.Set(resident_pages * page_bytes);
  }
  std::error_code error;
  double num_open = -1;  // The folder itself is open while it is read.
  for (std::filesystem::directory_iterator fd("/proc/self/fd", error), end; !error && fd != end;
       fd.increment(error))
    ++num_open;
  if (!error) open_fds_.Set(num_open);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) max_fds_.Set(static_cast<double>(limit.rlim_cur));
}

}  // namespace tern
