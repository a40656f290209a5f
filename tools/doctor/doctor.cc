// tern doctor: looks at this machine as a member of a job.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "common/algorithm/ranks.h"
#include "common/base/host_name.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "setup/setup.h"
#include "tools/commands.h"
#include "tools/doctor/cores.h"
#include "tools/doctor/disk.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/keys.h"
#include "tools/doctor/limits.h"
#include "tools/doctor/links.h"
#include "tools/doctor/load.h"
#include "tools/doctor/members.h"
#include "tools/doctor/ports.h"
#include "tools/doctor/tcp.h"
#include "tools/forecast/measure.h"
#include "tools/job_arguments.h"

namespace tern::tools {
namespace {

void PrintAndKeep(const Findings& findings, Findings* all) {
  std::printf("%s", FormatFindings(findings).c_str());
  std::fflush(stdout);  // Some checks take seconds.
  all->insert(all->end(), findings.begin(), findings.end());
}

// Measures a step and adds a finding. Nullopt if worker 0, whose settings are measured, computes on
// a GPU, a program of the user's computes, or the step cannot be measured.
std::optional<double> TimeStep(const setup::Setup& setup, Findings* findings) {
  if (setup::HasForeignTable(setup.job)) return std::nullopt;
  if (config::JobForRank(setup.job, 0).workers().device() != pb::Workers::cpu) return std::nullopt;
  const Result<double> step_s = MeasureStep(setup);
  if (!step_s.ok()) {
    findings->push_back(Bad(step_s.status().code(), "step", step_s.status().message()));
    return std::nullopt;
  }
  findings->push_back(
      Good("step", Cat("forward and backward of ", algorithm::BatchOfWorker(setup.job),
                       " images take ", SecondsText(*step_s), " here, in one worker alone")));
  return *step_s;
}

}  // namespace

Status RunDoctor(const Arguments& arguments) {
  const auto made_setup = SetupOfJob(arguments);
  if (!made_setup.ok()) return made_setup.status();
  const setup::Setup& setup = **made_setup;
  const Result<Members> members = FindMembers(setup.job, arguments.LastValue("workers"));
  if (!members.ok()) return members.status();
  std::printf("%s as a member of the job %s: %s\n", HostName().c_str(), setup.job.name().c_str(),
              MembersText(*members).c_str());
  const GroupLimits group = ReadGroupLimits();
  Findings all;
  PrintAndKeep(CheckLimits(setup, *members, group), &all);
  PrintAndKeep(CheckCores(setup.job, *members, group.cpus), &all);
  // With too little memory or too few cores, a measured step would say nothing, or end badly.
  const bool can_measure = std::all_of(
      all.begin(), all.end(), [](const Finding& finding) { return finding.grade == Grade::kGood; });
  Findings step_findings;
  const std::optional<double> step_s = can_measure ? TimeStep(setup, &step_findings) : std::nullopt;
  PrintAndKeep(step_findings, &all);
  PrintAndKeep(CheckLoad(setup.job, *members), &all);
  PrintAndKeep({CheckClock(setup.job, *members)}, &all);
  PrintAndKeep(CheckKeys(setup.job, *members), &all);
  PrintAndKeep(CheckDisk(setup, *members, step_s), &all);
  PrintAndKeep(CheckPorts(setup.job, *members), &all);
  PrintAndKeep(CheckLinks(setup, *members, step_s), &all);
  PrintAndKeep(CheckTcp(setup.job), &all);
  return StatusOf(all);
}

}  // namespace tern::tools
