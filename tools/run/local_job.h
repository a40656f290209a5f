// A job that a command supervises, from its folders to its closing table: what `tern run` and
// `tern launch` have in common. Its processes run on this machine, unless it says otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/folder_lock.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "setup/run_result.h"
#include "setup/screen.h"
#include "setup/setup.h"
#include "tools/run/process.h"
#include "tools/run/program_output.h"
#include "tools/run/supervisor.h"

namespace tern::tools {

// What the command line says about the job.
struct LocalJob {
  const pb::Job& job() const { return setup->job; }

  std::string job_file;                // that daemons read
  std::vector<std::string> overrides;  // of the keys in that file
  std::unique_ptr<setup::Setup> setup;
  std::string log_dir;
  uint32_t max_restarts = 0;
  std::string what_next;  // Printed after a job that has ended well; "": nothing.
};

// Refuses a job file that only this process can read, such as stdin. kUsage.
Status CheckJobFile(const std::string& job_file);

// Makes the job's folders.
Status PrepareFolders(const pb::Job& job, const std::string& log_dir);

// Locks the job's folder. Without the lock, a second `tern run` would truncate the logs of the
// first one before the second one's server finds the folder in use. Fails if another `tern run`, or
// a server that was started by hand, uses the folder.
Result<FolderLock> LockFolder(const pb::Job& job);

// A process of the job, "server" or "worker", with its output in `log_dir`.
ProcessSpec SpecOf(const std::string& log_dir, const std::string& role, uint32_t rank);
// A server's or worker's daemon, bin/tern_ROLE.
Result<ProcessSpec> DaemonSpec(const LocalJob& local, const std::string& role, uint32_t rank);

// Gives the process its keys by a descriptor of setup::MakeKeysFd: a daemon by --keys_fd, a program
// of the user's by TERN_KEYS_FD.
void GiveKeysFd(int keys_fd, ProcessSpec* spec);

// The member that is worker `rank`: how long the others may do without it, by the job's faults.
Supervisor::Member WorkerMember(const LocalJob& local, ProcessSpec spec);
// The same for a server.
Supervisor::Member ServerMember(const LocalJob& local, uint32_t shard, ProcessSpec spec);
// The members that are servers; the workers follow them.
Result<std::vector<Supervisor::Member>> ServerMembers(const LocalJob& local);

// Starts the members, of which the first is server 0, supervises them until they end, prints the
// table, and writes summary.json. `screen`: of stdout; `run_begin`: when the command began;
// `result`: made before the job's folder has changed; `program_output`: null if no member is a
// program of the user's.
Status RunToItsEnd(const LocalJob& local, std::vector<Supervisor::Member> members,
                   const setup::RunResult& result, Time run_begin, ProgramOutput* program_output,
                   StopSignals* stop_signals, setup::Screen* screen);

// The same for members that may run elsewhere: `options` has all but the number of restarts and the
// waiting times, which are those of `local`.
Status SuperviseToTheEnd(const LocalJob& local, Supervisor::Options options,
                         const setup::RunResult& result, Time run_begin, StopSignals* stop_signals,
                         setup::Screen* screen);

}  // namespace tern::tools
