// How a run of processes ended, and whose fault it was.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/setup/report.h"
#include "tools/process.h"

namespace tern::tools {

// A process that ended before the job did and not well, or that crashed or failed with a reason of
// its own at any time.
struct Failure {
  std::string process;  // "worker 1"
  pid_t pid = 0;
  Exit exit;
  std::string sentence;  // its last
  std::string output;    // the file that has it
  bool job_was_over = false;
};
// Whether a process said by its exit code why it failed; and whether it would fail so again, so
// that starting it again is of no use.
bool NamesReason(const Exit& exit);
bool WouldComeAgain(const Exit& exit);
// "worker 1 (process 4711) was killed by signal 9 (Killed)", and its last sentence.
std::string Describe(const Failure& failure);

// What a person sent.
struct StopSignal {
  int signal = 0;        // the first; 0: none
  bool at_once = false;  // a second one went to all processes before the job was over
};

// The status to leave with; its sentence names the root cause. `failures` in the order in which
// they were seen; `ended` is what shard 0 said at the end, if it did.
//
// The root cause is the first failure that is no consequence of another: a process that leaves with
// 75 (a peer was lost), or with the code that the job ended with, only says what it was told. Its
// code is the run's, where it is one that names a reason; after a signal or a code that names none
// it is the job's, or 75. Processes that are all told to stop at once may see each other leave:
// that loss is none.
Status Judge(const std::vector<Failure>& failures, const std::optional<setup::News>& ended,
             StopSignal stop);

}  // namespace tern::tools
