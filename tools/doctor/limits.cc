#include "tools/doctor/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "common/algorithm/ranks.h"
#include "common/base/text.h"
#include "tools/memory.h"

namespace tern::tools {
namespace {

// The first words of a file; fewer if it has fewer, none if it does not exist.
std::vector<std::string> FirstWords(const std::string& path, size_t count) {
  std::ifstream file(path);
  std::vector<std::string> words(count);
  size_t num_read = 0;
  while (num_read < count && file >> words[num_read]) ++num_read;
  words.resize(num_read);
  return words;
}

std::optional<double> NumberAt(const std::vector<std::string>& words, size_t index) {
  double number = 0;
  if (index >= words.size() || !(std::istringstream(words[index]) >> number)) return std::nullopt;
  return number;
}

template <typename T>
void TakeSmaller(std::optional<T>* limit, T other) {
  *limit = limit->has_value() ? std::min(**limit, other) : other;
}

void AddGroup(const std::string& folder, GroupLimits* limits) {
  // Version 1 has a huge number for "no limit", version 2 the word "max".
  constexpr double kNoMemoryLimit = 0x1p60;
  for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
    const std::optional<double> bytes = NumberAt(FirstWords(folder + name, 1), 0);
    if (bytes && *bytes < kNoMemoryLimit)
      TakeSmaller(&limits->memory_bytes, static_cast<uint64_t>(*bytes));
  }
  std::vector<std::string> quota = FirstWords(folder + "/cpu.max", 2);
  if (quota.empty()) {
    quota = FirstWords(folder + "/cpu.cfs_quota_us", 1);
    for (const std::string& word : FirstWords(folder + "/cpu.cfs_period_us", 1))
      quota.push_back(word);
  }
  const std::optional<double> quota_us = NumberAt(quota, 0);
  const std::optional<double> period_us = NumberAt(quota, 1);
  if (quota_us && period_us && *quota_us > 0 && *period_us > 0)
    TakeSmaller(&limits->cpus, *quota_us / *period_us);
}

// About as many as a server or worker without peers has open: libraries, logs, libzmq's own.
constexpr uint64_t kFilesOfDaemon = 64;

uint64_t NeededFiles(const pb::Job& job, const Members& members) {
  const uint64_t num_servers = static_cast<uint64_t>(job.servers_size());
  uint64_t needed = 0, connections_of_worker = 0;
  for (const pb::Server& server : job.servers()) connections_of_worker += 1 + server.data_sockets();
  if (!members.workers.empty()) needed = connections_of_worker;
  for (const uint32_t s : members.servers) {
    const uint64_t sockets = 1 + job.servers(static_cast<int>(s)).data_sockets();
    needed = std::max(needed, algorithm::NumRanks(job) * sockets + num_servers);
  }
  return needed + kFilesOfDaemon;
}

uint64_t NeededMemory(const setup::Setup& setup, const Members& members) {
  uint64_t bytes = 0;
  for (const MemoryItem& item : WorkerMemory(setup)) bytes += item.bytes;
  bytes *= members.workers.size();
  for (const uint32_t s : members.servers)
    for (const MemoryItem& item : ServerMemory(setup, s)) bytes += item.bytes;
  return bytes;
}

// What the kernel says that new processes may use without swapping; 0 if it does not.
uint64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name; file.ignore(1000, '\n')) {
    uint64_t kib = 0;
    if (name == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace

GroupLimits ReadGroupLimits(const std::string& root) {
  GroupLimits limits;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "0::/a/b" or "4:cpu,cpuacct:/a/b"
    const size_t first_colon = line.find(':');
    const size_t second_colon = line.find(':', first_colon + 1);
    if (second_colon == std::string::npos) continue;
    const std::string controllers = line.substr(first_colon + 1, second_colon - first_colon - 1);
    std::string group = line.substr(second_colon + 1);
    const std::string mount =
        root + "/sys/fs/cgroup" + (controllers.empty() ? "" : "/" + controllers);
    while (group.size() > 1) {
      AddGroup(mount + group, &limits);
      group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    }
    AddGroup(mount, &limits);
  }
  return limits;
}

Finding JudgeOpenFiles(uint64_t limit, uint64_t needed) {
  const std::string subject = "open files";
  if (limit >= needed)
    return Good(subject, Cat(limit, " allowed, about ", needed, " needed by one daemon"));
  return Bad(Code::kInternal, subject,
             Cat("saw a limit of ", limit, ", expected at least ", needed,
                 " for the connections of one daemon; raise the hard limit (ulimit -Hn, "
                 "LimitNOFILE of systemd, limits.conf)"));
}

Finding JudgeMemory(uint64_t available_bytes, bool is_of_group, uint64_t needed_bytes) {
  const std::string subject = "memory";
  const std::string available = Cat(HumanBytes(available_bytes),
                                    is_of_group ? " allowed by the control group" : " available");
  const std::string needed =
      Cat(HumanBytes(needed_bytes), " for the daemons here, without images (tern check)");
  if (available_bytes >= needed_bytes) return Good(subject, Cat(available, ", at most ", needed));
  return Warning(subject, Cat("saw ", available, ", expected ", needed,
                              "; the kernel may kill a daemon: use a smaller train.batch_total or "
                              "evaluation.batch, or fewer workers on this machine"));
}

Findings CheckLimits(const setup::Setup& setup, const Members& members, const GroupLimits& group) {
  Findings findings;
  rlimit files{};
  // A daemon raises its soft limit to the hard one (setup/command_line.h).
  if (getrlimit(RLIMIT_NOFILE, &files) == 0)
    findings.push_back(JudgeOpenFiles(files.rlim_max, NeededFiles(setup.job, members)));
  const uint64_t available = AvailableMemory();
  if (available == 0 && !group.memory_bytes) return findings;  // The kernel does not say.
  const bool is_of_group =
      group.memory_bytes.has_value() && (available == 0 || *group.memory_bytes < available);
  findings.push_back(JudgeMemory(is_of_group ? *group.memory_bytes : available, is_of_group,
                                 NeededMemory(setup, members)));
  return findings;
}

}  // namespace tern::tools
