#include "common/base/machine_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace tern {
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

// What the kernel says that new processes may use without swapping; 0 if it does not.
uint64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name; file.ignore(1000, '\n')) {
    uint64_t kib = 0;
    if (name == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return 0;
}

std::optional<uint64_t> MemoryRoom() {
  std::optional<uint64_t> room = ReadGroupLimits().memory_bytes;
  if (const uint64_t available = AvailableMemory(); available != 0) TakeSmaller(&room, available);
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY)
    TakeSmaller(&room, uint64_t{address_space.rlim_cur});
  return room;
}

}  // namespace tern
