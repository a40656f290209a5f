#include "tools/launch/launched_job.h"

#include "common/base/text.h"
#include "common/config/job.h"
#include "setup/environment.h"
#include "setup/setup.h"
#include "tools/run/free_ports.h"

namespace tern::tools {
namespace {

// FreePortOverrides replaces the port. Programs may prepare their data before they join, and one
// that fails meanwhile ends the job.
constexpr const char* kDefaultJob =
    "name: launch\n"
    "output_dir: tern_out\n"
    "servers: [{address: \"127.0.0.1:7500\"}]\n"
    "workers: {count: 1}\n"
    "train: {compute: client}\n"
    "exchange: {codec: ternary_ans}\n"
    "faults: {start_timeout_s: 600}\n";

Result<pb::Job> Read(const LaunchedJobOptions& options, const std::vector<std::string>& overrides) {
  return options.job_file.empty()
             ? config::ParseJob(kDefaultJob, "the job of tern launch", overrides,
                                setup::KnownNames(), setup::PlaceOf(setup::ProcessEnvironment()))
             : setup::LoadJob(options.job_file, overrides);
}

Status Check(const pb::Job& job, const std::string& job_file, bool has_programs) {
  if (!has_programs && setup::HasForeignTable(job)) {
    return Status(
        Code::kBadJob,
        Cat(job_file, ": train.compute: saw ", pb::Train::Compute_Name(job.train().compute()),
            ", so the workers are programs of yours; add them: -- PROGRAM [ARGUMENT...]"));
  }
  if (has_programs && !setup::HasForeignTable(job)) {
    return Status(
        Code::kBadJob,
        Cat(job_file, ": train.compute: saw ", pb::Train::Compute_Name(job.train().compute()),
            ", so the workers are no programs of yours; expected client or module; `tern run ",
            job_file, "` starts this job, and `tern launch -H HOSTS ", job_file,
            "` on several hosts"));
  }
  return Ok();
}

}  // namespace

namespace {

std::vector<std::string> OverridesOf(const LaunchedJobOptions& options) {
  std::vector<std::string> overrides = options.overrides;
  if (options.num_workers.has_value())
    overrides.push_back(Cat("workers.count=", *options.num_workers));
  return overrides;
}

}  // namespace

Result<pb::Job> ReadJob(const LaunchedJobOptions& options) {
  const bool has_file = !options.job_file.empty();
  if (!has_file && !options.has_programs)
    return Status(Code::kUsage, "there is no job file; name it: tern launch -H HOSTS JOB");
  if (!has_file && !options.num_workers.has_value()) {
    return Status(Code::kUsage,
                  "there is no job file, so the number of workers is not known; give -n N, or "
                  "--job JOB");
  }
  Result<pb::Job> job = Read(options, OverridesOf(options));
  if (!job.ok()) return job;
  TERN_RETURN_IF_ERROR(Check(*job, has_file ? options.job_file : "--set", options.has_programs));
  return job;
}

Result<pb::Job> ReadLaunchedJob(const LaunchedJobOptions& options) {
  Result<pb::Job> job = ReadJob(options);
  if (!job.ok() || (!options.job_file.empty() && !options.uses_free_ports)) return job;
  const Result<std::vector<std::string>> port_overrides = FreePortOverrides(*job);
  if (!port_overrides.ok()) return port_overrides.status();
  std::vector<std::string> overrides = OverridesOf(options);
  overrides.insert(overrides.end(), port_overrides->begin(), port_overrides->end());
  return Read(options, overrides);
}

std::string LaunchedJobFile(const pb::Job& job) { return job.output_dir() + "/launched_job.yaml"; }

}  // namespace tern::tools
