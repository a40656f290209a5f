#include "tools/doctor/limits.h"

#include <sys/resource.h>

#include <algorithm>

#include "common/algorithm/ranks.h"
#include "common/base/text.h"
#include "tools/memory.h"

namespace tern::tools {
namespace {

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

}  // namespace

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
