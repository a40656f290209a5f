#include "tools/doctor/load.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <thread>

#include "common/base/cpus.h"
#include "common/base/text.h"
#include "tools/doctor/cores.h"

namespace tern::tools {
namespace {

constexpr std::chrono::milliseconds kLookTime{500};
// So many CPUs may be missing before a finding warns: something always runs for a moment.
constexpr double kTolerance = 0.5;
constexpr double kMentionedCpus = 0.1;

struct CpuTicks {
  uint64_t busy = 0, all = 0;
};

// The ticks since the system's start, by CPU: man 5 proc, /proc/stat.
std::map<uint32_t, CpuTicks> ReadCpuTicks() {
  std::map<uint32_t, CpuTicks> ticks_by_cpu;
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    uint32_t cpu = 0;
    if (!name.starts_with("cpu") ||
        std::from_chars(name.data() + 3, name.data() + name.size(), cpu).ec != std::errc())
      continue;
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
    const std::vector<uint64_t> ticks{std::istream_iterator<uint64_t>(words), {}};
    for (size_t i = 0; i < std::min<size_t>(ticks.size(), 8); ++i) {
      ticks_by_cpu[cpu].all += ticks[i];
      if (i != 3 && i != 4) ticks_by_cpu[cpu].busy += ticks[i];
    }
  }
  return ticks_by_cpu;
}

struct ProcessTicks {
  std::string name;
  uint64_t ticks = 0;
};

// The ticks of every process but this one: man 5 proc, /proc/PID/stat.
std::map<pid_t, ProcessTicks> ReadProcessTicks() {
  std::map<pid_t, ProcessTicks> processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string folder = entry.path().filename().string();
    pid_t id = 0;
    if (std::from_chars(folder.data(), folder.data() + folder.size(), id).ec != std::errc() ||
        id == getpid())
      continue;
    std::string text;
    std::getline(std::ifstream(entry.path() / "stat"), text);
    // The name is in parentheses, and may have some in it.
    const size_t name_begin = text.find('('), name_end = text.rfind(')');
    if (name_begin == std::string::npos || name_end == std::string::npos) continue;
    std::istringstream words(text.substr(name_end + 1));
    std::string word;
    for (int i = 0; i < 11; ++i) words >> word;  // up to the word before utime and stime
    uint64_t user_ticks = 0, system_ticks = 0;
    words >> user_ticks >> system_ticks;
    processes[id] = {text.substr(name_begin + 1, name_end - name_begin - 1),
                     user_ticks + system_ticks};
  }
  return processes;
}

}  // namespace

Result<CpuLoad> MeasureLoad(const std::vector<uint32_t>& cpus) {
  const auto cpus_before = ReadCpuTicks();
  const auto processes_before = ReadProcessTicks();
  std::this_thread::sleep_for(kLookTime);
  const auto processes_after = ReadProcessTicks();
  const auto cpus_after = ReadCpuTicks();
  CpuLoad load;
  for (const uint32_t cpu : cpus) {
    const auto before = cpus_before.find(cpu), after = cpus_after.find(cpu);
    if (before == cpus_before.end() || after == cpus_after.end() ||
        after->second.all <= before->second.all)
      return Status(Code::kCannotWrite, Cat("saw no times of CPU ", cpu, " in /proc/stat"));
    load.busy_cpus += static_cast<double>(after->second.busy - before->second.busy) /
                      static_cast<double>(after->second.all - before->second.all);
  }
  const double min_ticks = kMentionedCpus * std::chrono::duration<double>(kLookTime).count() *
                           static_cast<double>(sysconf(_SC_CLK_TCK));
  uint64_t most_ticks = 0;
  for (const auto& [id, process] : processes_after) {
    const auto before = processes_before.find(id);
    const uint64_t ticks =
        process.ticks - (before == processes_before.end() ? 0 : before->second.ticks);
    if (ticks <= most_ticks || static_cast<double>(ticks) < min_ticks) continue;
    most_ticks = ticks;
    load.busiest = Cat(Printable(process.name), " (process ", id, ")");
  }
  return load;
}

Finding JudgeLoad(const CpuLoad& load, uint32_t num_cpus, uint32_t threads) {
  const std::string subject = "load";
  const std::string busy = Cat(FormatFixed(load.busy_cpus, 1), " of ", num_cpus,
                               num_cpus == 1 ? " CPU is busy" : " CPUs are busy");
  const uint32_t needed = std::min(threads, num_cpus);
  if (num_cpus - load.busy_cpus > needed - kTolerance) return Good(subject, busy);
  return Warning(subject, Cat("saw that ", busy, " with other programs",
                              load.busiest.empty() ? "" : ", most of all with " + load.busiest,
                              ", expected ", needed, " free for the ", threads,
                              threads == 1 ? " thread that computes" : " threads that compute",
                              "; end what does not belong here, or bind workers to other CPUs "
                              "(workers.cpus)"));
}

Findings CheckLoad(const pb::Job& job, const Members& members) {
  const uint32_t threads = NumComputeThreads(job, members);
  const Result<std::vector<uint32_t>> cpus = CpusOfThisThread();
  if (threads == 0 || !cpus.ok()) return {};  // CheckCores reports the error.
  const Result<CpuLoad> load = MeasureLoad(*cpus);
  if (!load.ok()) return {Good("load", "not known: " + load.status().message())};
  return {JudgeLoad(*load, static_cast<uint32_t>(cpus->size()), threads)};
}

}  // namespace tern::tools
