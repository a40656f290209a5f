// How a run of processes ended, and which one caused it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "setup/report.h"
#include "tools/run/process.h"

namespace tern::tools {

// A process that ended before the job did and not well, or that crashed or failed with a reason of
// its own at any time.
struct Failure {
  std::string process;  // "worker 1"
  pid_t pid = 0;
  Exit exit;
  std::string sentence;  // its last words on stderr
  std::string output;    // the file with its stderr
  bool job_was_over = false;
};
// Whether a process said by its exit code why it failed; and whether it would fail so again, so
// that starting it again is of no use.
bool NamesReason(const Exit& exit);
bool WouldComeAgain(const Exit& exit);
// "worker 1 (process 4711) was killed by signal 9 (Killed)", and its last sentence.
std::string Describe(const Failure& failure);

// The stop signals that a user sent.
struct StopSignal {
  int signal = 0;        // the first; 0: none
  bool at_once = false;  // a second one was passed to all processes before the job was over
};

// The status to exit with; its sentence names the root cause. `failures` in the order in which they
// were seen; `ended` is shard 0's last report, if there was one.
//
// The root cause is the first failure that is not the consequence of another: a process that exits
// with 75 (a peer was lost), or with the code that the job ended with, only reports what it was
// told. Its code becomes the run's if it names a reason; after a signal, or a code without a
// reason, the run's code is the job's, or 75. When all processes are told to stop at once, they may
// see each other leave: such a loss is not a failure.
Status Judge(const std::vector<Failure>& failures, const std::optional<setup::News>& ended,
             StopSignal stop);

}  // namespace tern::tools
