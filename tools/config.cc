// tern config: prints a job with all defaults.
#include <cstdio>

#include "common/config/job.h"
#include "tools/commands.h"
#include "tools/job_arguments.h"

namespace tern::tools {

Status PrintConfig(const Arguments& arguments) {
  const auto setup = SetupOfJob(arguments);
  if (!setup.ok()) return setup.status();
  std::printf("%s", config::ToYaml((*setup)->job).c_str());
  return Ok();
}

}  // namespace tern::tools
