#include "tools/launch/users_program.h"

#include <algorithm>
#include <cstdlib>

#include "common/base/cpus.h"
#include "common/base/text.h"

namespace tern::tools {

size_t ThreadsOfPrograms(uint32_t num_programs) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return 0;
  const auto cpus = CpusOfThisThread();
  return std::max<size_t>(1, cpus.ok() ? cpus->size() / std::max(1u, num_programs) : 1);
}

void SetUsersProgram(const std::string& program, const pb::Job& job, const std::string& job_file,
                     uint32_t rank, size_t num_threads, ProcessSpec* spec) {
  spec->is_users_program = true;
  spec->program = program;
  spec->set_environment = {Cat("TERN_RANK=", rank), Cat("TERN_WORLD_SIZE=", job.workers().count()),
                           "TERN_JOB=" + job_file};
  // Python would keep the lines of a program whose output is no terminal until its end.
  spec->environment.emplace_back("PYTHONUNBUFFERED=1");
  if (num_threads != 0) spec->environment.push_back(Cat("OMP_NUM_THREADS=", num_threads));
}

}  // namespace tern::tools
