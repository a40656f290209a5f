// tern member: becomes the member of a job that a task of a launcher (srun, mpirun, ...) is.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "setup/environment.h"
#include "setup/setup.h"
#include "tools/commands.h"
#include "tools/run/local_job.h"
#include "tools/run/process.h"

namespace tern::tools {
namespace {

// The task of a launcher that this process is.
struct Member {
  const char* role = "server";
  uint32_t rank = 0;  // among those of its role
};

// Tasks are the servers first, then the workers.
Result<Member> MemberOfTask(const pb::Job& job, const setup::Environment& environment) {
  const auto task = setup::RankOf(environment);
  if (!task.ok()) return task.status();
  if (!task->has_value()) {
    return Status(Code::kUsage, Cat("the number of this task is not known: no launcher has set ",
                                    setup::RankVariables(environment)));
  }
  const auto servers = static_cast<uint32_t>(job.servers_size());
  const uint32_t tasks = servers + job.workers().count();
  const std::string expected =
      Cat(tasks, " tasks, ", servers, " of them servers and ", job.workers().count(), " workers");
  if ((*task)->value >= tasks) {
    return Status(Code::kBadJob,
                  Cat((*task)->variable, " ", (*task)->value, ": the job has ", expected,
                      ", so the number is at most ", tasks - 1, "; start as many tasks"));
  }
  const auto size = setup::WorldSizeOf(environment);
  if (!size.ok()) return size.status();
  if (size->has_value() && (*size)->value != tasks) {
    return Status(Code::kBadJob, Cat((*size)->variable, " ", (*size)->value, ": the job has ",
                                     expected, "; start as many, or set TERN_WORKERS"));
  }
  const bool is_server = (*task)->value < servers;
  const Member member{is_server ? "server" : "worker",
                      is_server ? (*task)->value : (*task)->value - servers};
  std::fprintf(stderr, "tern: task %u, from %s, is %s %u\n", (*task)->value, (*task)->variable,
               member.role, member.rank);
  return member;
}

// Becomes the program. Returns only if that is not possible.
Status Become(const std::string& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  return Status(Code::kAddress, Cat("cannot run ", program, ": ", std::strerror(errno)));
}

Status BecomeDaemon(const Member& member, const std::string& job_file, const Arguments& arguments) {
  const Result<std::string> program = FindProgram(Cat("tern_", member.role));
  if (!program.ok()) return program.status();
  std::vector<std::string> words = {"--job", job_file, "--rank", Cat(member.rank)};
  if (arguments.HasFlag("log_dir"))
    words.insert(words.end(), {"--log_dir", arguments.LastValue("log_dir")});
  for (const std::string& key_value : arguments.AllValues("set"))
    words.insert(words.end(), {"--set", key_value});
  return Become(*program, std::move(words));
}

Status BecomeUsersProgram(const Member& member, const std::string& job_file, const pb::Job& job,
                          const std::vector<std::string>& words) {
  const Result<std::string> program = FindUsersProgram(words.front());
  if (!program.ok()) return program.status();
  setenv("TERN_RANK", Cat(member.rank).c_str(), 1);
  setenv("TERN_WORLD_SIZE", Cat(job.workers().count()).c_str(), 1);
  setenv("TERN_JOB", job_file.c_str(), 1);
  return Become(*program, {words.begin() + 1, words.end()});
}

Status CheckProgram(const pb::Job& job, const Arguments& arguments) {
  const bool has_program = !arguments.program().empty();
  if (has_program && arguments.HasFlag("set")) {
    return Status(Code::kUsage,
                  "--set: saw a program after --, which reads the job file; write the keys into "
                  "that file, or set TERN_SERVERS, TERN_WORKERS or TERN_OUTPUT_DIR");
  }
  if (has_program == setup::HasForeignTable(job)) return Ok();
  return has_program
             ? Status(Code::kUsage,
                      "saw a program after --, and a job whose workers are tern_worker; leave the "
                      "program out, or set train.compute to client or module")
             : Status(Code::kUsage,
                      "the workers of this job are programs of yours (train.compute); give the "
                      "program after --, as in: tern member job.yaml -- python train.py");
}

}  // namespace

Status BecomeMember(const Arguments& arguments) {
  const setup::Environment environment = setup::ProcessEnvironment();
  const std::string path = arguments.positional().empty() ? setup::JobFileOf(environment)
                                                          : arguments.positional().front();
  if (path.empty())
    return Status(Code::kUsage, "the job file is not known: give JOB, or set TERN_JOB");
  TERN_RETURN_IF_ERROR(CheckJobFile(path));
  const Result<pb::Job> job = setup::LoadJob(path, arguments.AllValues("set"));
  if (!job.ok()) return job.status();
  TERN_RETURN_IF_ERROR(CheckProgram(*job, arguments));
  const Result<Member> member = MemberOfTask(*job, environment);
  if (!member.ok()) return member.status();
  std::error_code error;
  const std::string job_file = std::filesystem::absolute(path, error).string();
  if (std::string(member->role) == "server" || arguments.program().empty())
    return BecomeDaemon(*member, job_file, arguments);
  return BecomeUsersProgram(*member, job_file, *job, arguments.program());
}

}  // namespace tern::tools
