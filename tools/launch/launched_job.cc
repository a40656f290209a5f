#include "tools/launch/launched_job.h"

#include "common/base/text.h"
#include "common/config/job.h"
#include "setup/environment.h"
#include "setup/security.h"
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

Status Check(const pb::Job& job, const std::string& job_file) {
  if (!setup::HasForeignTable(job)) {
    return Status(
        Code::kBadJob,
        Cat(job_file, ": train.compute: saw ", pb::Train::Compute_Name(job.train().compute()),
            ", so the workers are no programs of yours; expected client or module; `tern run ",
            job_file, "` starts this job"));
  }
  if (job.security() == pb::Job::curve && !setup::HasKeys(job)) {
    return Status(Code::kBadJob,
                  "security: saw curve and no keys, which a program reads from a file; make them "
                  "with `tern keys make DIR --job JOB`, and set keys.dir: DIR in the job");
  }
  return Ok();
}

}  // namespace

Result<pb::Job> ReadLaunchedJob(const LaunchedJobOptions& options) {
  const bool has_file = !options.job_file.empty();
  if (!has_file && !options.num_workers.has_value()) {
    return Status(Code::kUsage,
                  "there is no job file, so the number of workers is not known; give -n N, or "
                  "--job JOB");
  }
  std::vector<std::string> overrides = options.overrides;
  if (options.num_workers.has_value())
    overrides.push_back(Cat("workers.count=", *options.num_workers));
  Result<pb::Job> job = Read(options, overrides);
  if (!job.ok()) return job;
  TERN_RETURN_IF_ERROR(Check(*job, has_file ? options.job_file : "--set"));
  if (has_file && !options.uses_free_ports) return job;
  const Result<std::vector<std::string>> port_overrides = FreePortOverrides(*job);
  if (!port_overrides.ok()) return port_overrides.status();
  overrides.insert(overrides.end(), port_overrides->begin(), port_overrides->end());
  return Read(options, overrides);
}

std::string LaunchedJobFile(const pb::Job& job) { return job.output_dir() + "/launched_job.yaml"; }

}  // namespace tern::tools
