#include "tools/launch/slurm_hosts.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>

#include "common/base/text.h"

namespace tern::tools {
namespace {

// "2(x3)": the tasks of a node, and on how many nodes.
struct Repeated {
  uint32_t tasks = 0, nodes = 1;
};

std::optional<Repeated> ParseRepeated(const std::string& text) {
  Repeated repeated;
  char closing = 0;
  int length = 0;
  const int num_read = std::sscanf(text.c_str(), "%u%n(x%u%c%n", &repeated.tasks, &length,
                                   &repeated.nodes, &closing, &length);
  const bool is_whole = static_cast<size_t>(length) == text.size();
  if (is_whole && (num_read == 1 || (num_read == 3 && closing == ')'))) return repeated;
  return std::nullopt;
}

std::string OutputOf(const char* command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command, "r"), pclose);
  std::string output;
  std::array<char, 4096> buffer;
  for (size_t size = 0;
       pipe != nullptr && (size = fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0;)
    output.append(buffer.data(), size);
  return output;
}

}  // namespace

Result<std::vector<Host>> ParseSlurmHosts(const std::string& names,
                                          const std::string& tasks_per_node) {
  std::vector<uint32_t> slots;
  std::istringstream counts(tasks_per_node);
  for (std::string count; std::getline(counts, count, ',');) {
    const std::optional<Repeated> repeated = ParseRepeated(count);
    if (!repeated.has_value()) {
      return Status(Code::kUsage, Cat("SLURM_TASKS_PER_NODE: saw '", Printable(tasks_per_node),
                                      "', expected tasks of nodes, as in 2(x3),1"));
    }
    slots.insert(slots.end(), repeated->nodes, repeated->tasks);
  }
  std::vector<Host> hosts;
  std::istringstream lines(names);
  for (std::string name; lines >> name;) {
    hosts.push_back({name, hosts.size() < slots.size() ? slots[hosts.size()] : 0});
  }
  if (!hosts.empty() && hosts.size() == slots.size()) return hosts;
  return Status(Code::kUsage, Cat("SLURM_TASKS_PER_NODE: saw '", Printable(tasks_per_node),
                                  "', expected the tasks of each node of SLURM_JOB_NODELIST"));
}

Result<std::vector<Host>> HostsOfAllocation() {
  const char* const nodes = std::getenv("SLURM_JOB_NODELIST");
  const char* const tasks = std::getenv("SLURM_TASKS_PER_NODE");
  if (nodes == nullptr) {
    return Status(Code::kUsage,
                  "--slurm: saw no allocation (SLURM_JOB_NODELIST is not set); call it in a batch "
                  "script of sbatch, or in a shell of salloc");
  }
  const std::string names = OutputOf("scontrol show hostnames");  // those of SLURM_JOB_NODELIST
  if (names.empty())
    return Status(Code::kAddress, "--slurm: `scontrol show hostnames` has named no node");
  return ParseSlurmHosts(names, tasks == nullptr ? "" : tasks);
}

}  // namespace tern::tools
