// How `tern run` ended, and which process was the cause.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "setup/report.h"
#include "tools/run/process.h"

namespace tern::tools {

// A process that failed before the job ended, or that crashed or reported an error of its own at
// any time.
struct Failure {
  std::string process_name;  // Such as "worker 1".
  std::string host;          // On which it ran; "": this one.
  pid_t pid = 0;
  Exit exit;
  std::string sentence;       // The error sentence of the process on stderr.
  std::string stderr_path;    // The path of the file with its stderr.
  bool job_was_over = false;  // The process failed after the job ended.
  // Whether it is a program of the user's, whose codes Tern does not know. With the code 0, it left
  // the job too early.
  bool is_users_program = false;
  // Of a program of the user's: the process that trained, which may be one that the program has
  // started (LearnProgramPid). 0: not known.
  uint64_t program_pid = 0;
  size_t rank = SIZE_MAX;  // Of a worker.
  Time seen_at{};
};
// Sets program_pid, if it is not known, from a report of shard 0 that came before the failure or so
// soon after it that no user can have replaced the program. Short jobs make no report before.
void LearnProgramPid(const setup::ProgressUpdate& report, Time now, Failure* failure);
// Returns whether the exit code of one of Tern's programs tells why it failed.
bool HasReasonCode(const Exit& exit);
// Returns whether a restarted process would fail the same way.
bool WouldRecur(const Failure& failure);
// Whether the worker that has failed was another process when shard 0 made this report.
bool WasReplaced(const Failure& failure, const setup::ProgressUpdate& report);
// Returns a text such as "worker 1 (process 4711) was killed by signal 9 (Killed)", followed by the
// error sentence of the process.
std::string Describe(const Failure& failure);

// The stop signals that a user sent.
struct StopSignal {
  int signal = 0;               // The first stop signal; 0: none.
  bool was_forced = false;      // A second stop signal went to all processes before the job ended.
  bool ended_programs = false;  // The first one ended programs that still ran after the job's end.
};

// Returns the status of the run; its message names the root cause. `failures` are in the order in
// which they were seen; `end_report` is shard 0's report of the end, if it wrote one.
//
// The root cause is the first failure that is not the consequence of another failure. If the job
// ended in order, only failures after its end count, and those of servers that could not write
// their last checkpoint. A process that exits with 75 (a peer was lost), or with the exit code of
// the job, only reports a consequence. If the job's end names a program of the user's, that one's
// failure goes before others: a program that learns of the job's end may be the first to end. A
// server's failure to get its address goes before workers' refusals: they have met the server of
// another job there. The status has the exit code of the root cause if this code tells a reason, as
// every code of a program of the user's does (0, too early: kUsage). Otherwise, as after a signal,
// it has the code of the job, or 75 if shard 0 did not report the end. A forced stop makes
// processes lose each other; such a loss is not a failure.
Status JudgeRun(const std::vector<Failure>& failures,
                const std::optional<setup::ProgressUpdate>& end_report, StopSignal stop);

}  // namespace tern::tools
