#include "tools/doctor/cores.h"

#include <sys/timex.h>

#include <algorithm>
#include <set>
#include <vector>

#include "common/base/cpus.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "worker/machine.h"

namespace tern::tools {
namespace {

std::optional<bool> IsClockSynchronized() {
  timex state{};  // With modes 0, adjtimex only asks.
  const int result = adjtimex(&state);
  if (result < 0) return std::nullopt;
  return result != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
}

// Whether workers.cpus of each rank are CPUs on which this process may run.
void CheckBindings(const pb::Job& job, const Members& members, const std::vector<uint32_t>& allowed,
                   Findings* findings) {
  std::set<std::string> seen;
  for (const uint32_t rank : members.workers) {
    const std::string text = config::JobForRank(job, rank).workers().cpus();
    if (text.empty() || !seen.insert(text).second) continue;
    const auto cpus = ParseCpus(text);
    const bool is_allowed =
        cpus && std::includes(allowed.begin(), allowed.end(), cpus->begin(), cpus->end());
    const std::string subject = Cat("CPUs of worker ", rank);
    findings->push_back(
        is_allowed
            ? Good(subject, Cat(text, ", all allowed"))
            : Bad(Code::kBadJob, subject,
                  Cat("saw workers.cpus ", Printable(text), ", expected some of ",
                      CpusText(allowed), ", on which processes may run here; change that key")));
  }
}

void CheckDevices(const pb::Job& job, const Members& members, Findings* findings) {
  for (const uint32_t rank : members.workers) {
    const pb::Job rank_job = config::JobForRank(job, rank);
    if (rank_job.workers().device() != pb::Workers::cuda) continue;
    const std::string subject = Cat("GPU of worker ", rank);
    const Status status = worker::CheckDeviceOf(rank_job);
    findings->push_back(status.ok() ? Good(subject, "usable")
                                    : Bad(status.code(), subject, status.message()));
  }
}

}  // namespace

Finding JudgeThreads(uint32_t threads, uint32_t allowed, std::optional<double> quota) {
  const std::string subject = "cores";
  const double usable = std::min<double>(allowed, quota.value_or(allowed));
  const std::string cores = quota && *quota < allowed
                                ? Cat(*quota, " (the CPU quota of the control group) of ", allowed)
                                : Cat(allowed);
  if (threads <= usable)
    return Good(subject, Cat(cores, " usable, ", threads, " threads that compute"));
  return Warning(subject, Cat("saw ", threads, " threads that compute in the workers here, ",
                              "expected at most the usable cores, ", cores,
                              "; threads that wait for a core make training slower: lower "
                              "workers.threads, or run fewer workers here"));
}

Finding JudgeProcessor(bool has_avx2, bool has_avx512, bool wants_bf16) {
  const std::string subject = "processor";
  if (wants_bf16 && !has_avx512) {
    return Bad(Code::kBadJob, subject,
               "saw no AVX-512, expected it for train.precision: bf16; use fp32, or another "
               "machine");
  }
  if (has_avx512) return Good(subject, "AVX2 and AVX-512, for which there are the fastest kernels");
  if (has_avx2) return Good(subject, "AVX2; with AVX-512 the kernels would be faster");
  return Warning(subject,
                 "saw neither AVX2 nor AVX-512, expected one of them; networks and codes are much "
                 "slower without: if this is a virtual machine, let it have the host's processor");
}

Finding JudgeClock(std::optional<bool> is_synchronized, bool is_of_one_machine) {
  const std::string subject = "clock";
  if (!is_synchronized) return Good(subject, "the kernel does not say whether it is synchronized");
  if (*is_synchronized) return Good(subject, "synchronized");
  if (is_of_one_machine)
    return Good(subject, "not synchronized, which does not matter to a job on one machine");
  return Warning(subject,
                 "saw a clock that is not synchronized, expected one that is: training does not "
                 "need it, but times in the logs of several hosts cannot be compared; start chrony "
                 "or systemd-timesyncd");
}

uint32_t NumComputeThreads(const pb::Job& job, const Members& members) {
  uint32_t num_threads = 0;
  for (const uint32_t rank : members.workers) {
    const pb::Workers workers = config::JobForRank(job, rank).workers();
    if (workers.device() == pb::Workers::cpu && job.train().compute() != pb::Train::wait)
      num_threads += workers.threads();
  }
  return num_threads;
}

Findings CheckCores(const pb::Job& job, const Members& members, std::optional<double> quota) {
  Findings findings;
  const Result<std::vector<uint32_t>> allowed = CpusOfThisThread();
  const uint32_t num_threads = NumComputeThreads(job, members);
  if (!allowed.ok()) {
    findings.push_back(Warning("cores", allowed.status().message()));
  } else {
    findings.push_back(JudgeThreads(num_threads, static_cast<uint32_t>(allowed->size()), quota));
    CheckBindings(job, members, *allowed, &findings);
  }
  const bool wants_bf16 = num_threads > 0 && job.train().precision() == pb::Train::bf16;
  findings.push_back(JudgeProcessor(__builtin_cpu_supports("avx2"),
                                    __builtin_cpu_supports("avx512bw"), wants_bf16));
  CheckDevices(job, members, &findings);
  return findings;
}

Finding CheckClock(const pb::Job& job, const Members& members) {
  const bool is_of_one_machine =
      members.servers.size() == static_cast<size_t>(job.servers_size()) &&
      members.workers.size() == job.workers().count();
  return JudgeClock(IsClockSynchronized(), is_of_one_machine);
}

}  // namespace tern::tools
