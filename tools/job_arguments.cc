#include "tools/job_arguments.h"

namespace tern::tools {

std::string JobPath(const std::string& argument) {
  return argument == "-" ? "/dev/stdin" : argument;
}

Result<std::unique_ptr<setup::Setup>> SetupOfJob(const setup::Arguments& arguments) {
  return setup::MakeSetup(JobPath(arguments.positional()[0]), arguments.AllValues("set"));
}

}  // namespace tern::tools
