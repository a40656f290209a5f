// The command line of both daemons, tern_server and tern_worker: daemon_def.h defines it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/failpoint_flag.h"
#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::setup {

struct CommandLine {
  std::string job_path;
  uint32_t rank = 0;
  std::string rank_source = "--rank";  // the flag or environment variable that has the rank
  std::vector<std::string> overrides;
  bool check_only = false;   // only read and check the job, print it, and exit
  std::string weights_path;  // --evaluate: the weights to evaluate, without training; empty: train
  std::string log_dir;       // empty: output_dir/logs
  int progress_fd = -1;      // where to write progress as JSON lines, for `tern run`
  int keys_fd = -1;          // where to read this daemon's keys (MakeKeysFd), from `tern run`
  std::vector<Failpoint> failpoints;
  uint32_t trace_steps = 0;  // how many steps to record (common/base/trace.h)
};

// Where a daemon with --trace writes.
std::string TracePath(const std::string& output_dir, const std::string& role, uint32_t rank);

// `role` is "server" or "worker". --help, --version (which prints `version_text`) and
// --fail list print and exit with 0. kUsage
// if a flag is unknown or missing, or its value is invalid; the message says which.
Result<CommandLine> ParseCommandLine(int argc, char** argv, const std::string& role,
                                     const std::string& version_text);

// Starts a daemon: reads the job, checks the rank against it, reads its keys (setup/security.h),
// calls `before_writing` (if set; an error ends the start), opens the log, logs the resolved job,
// and switches on the failpoints and the trace. With check_only it only reads the job and checks
// the rank; a worker with weights_path reads no keys. Logs a warning if the job has
// `security: none`, because peers are then not authenticated. After this call SIGPIPE and SIGXFSZ
// are ignored: writing to a closed pipe, or beyond `ulimit -f`, fails that write instead of killing
// the process. The process may then open as many files as its hard limit allows (`ulimit -Hn`).
Result<std::unique_ptr<Setup>> StartDaemon(
    const CommandLine& line, const std::string& role,
    const std::function<Status(const pb::Job&)>& before_writing = {});

// Writes a daemon's summary, one JSON line, to the file at `path`, atomically; creates the folder.
// An error (kCannotWrite) is returned and logged.
Status WriteSummaryFile(const std::string& path, const std::string& line);
// The final status of a process whose job ended with `status` and whose summary was written with
// the result `write_status`. Returns `write_status` if the job ended in an orderly way but the
// summary could not be written; else `status`.
Status FinalStatus(const Status& status, const Status& write_status);

// Writes what stdio still has for stdout. kCannotWrite if not all of this program's output could be
// written, unless its reader has ended.
Status FlushStdout();

// Returns what `run` returns; kInternal, with a sentence, if the system gives it no more memory.
Status RunWithinMemory(const std::function<Status()>& run);

// Flushes stdout, and writes the trace if there is one. Writes the message of `status`, or of the
// error in doing so, to stderr and the log unless it is ok. Returns the exit code.
int ReportExit(const std::string& program, const Status& status);

}  // namespace tern::setup
