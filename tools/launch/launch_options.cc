#include "tools/launch/launch_options.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/text.h"
#include "common/config/job.h"

namespace tern::tools {
namespace {

constexpr uint32_t kMaxWorkers =
    1'000'000;  // The job's own limit is lower, and its message better.

}  // namespace

Result<LaunchOptions> ReadLaunchOptions(const setup::Arguments& arguments) {
  LaunchOptions options;
  if (arguments.HasFlag("workers")) {
    const Result<uint32_t> num_workers = arguments.NumberValue("workers", kMaxWorkers);
    if (!num_workers.ok()) return num_workers.status();
    if (*num_workers == 0)
      return Status(Code::kUsage, "--workers: saw 0; allowed: the number of programs, from 1");
    options.job.num_workers = *num_workers;
  }
  const Result<uint32_t> max_restarts = arguments.NumberValue("restarts", 1'000'000);
  if (!max_restarts.ok()) return max_restarts.status();
  options.max_restarts = *max_restarts;
  const char* const job_variable = std::getenv("TERN_JOB");
  options.job.job_file = arguments.HasFlag("job")          ? arguments.LastValue("job")
                         : !arguments.positional().empty() ? arguments.positional().front()
                         : job_variable != nullptr         ? job_variable
                                                           : "";
  options.job.overrides = arguments.AllValues("set");
  options.job.uses_free_ports = arguments.HasFlag("free_ports");
  options.job.has_programs = !arguments.program().empty();
  if (!options.job.has_programs) return options;
  options.program = arguments.program().front();
  options.arguments.assign(arguments.program().begin() + 1, arguments.program().end());
  return options;
}

Status WriteJob(const pb::Job& job, LocalJob* local) {
  std::error_code error;
  local->job_file = std::filesystem::absolute(LaunchedJobFile(job), error).string();
  TERN_RETURN_IF_ERROR(WriteFileAtomically(
      local->job_file, "# Written by tern launch: the job as its servers and programs use it.\n" +
                           config::ToYaml(job)));
  auto setup = setup::MakeSetupWithoutTensors(local->job_file, {});
  if (!setup.ok()) return setup.status();
  local->setup = std::move(*setup);
  return Ok();
}

}  // namespace tern::tools
