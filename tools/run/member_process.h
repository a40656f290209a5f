// A running process of a job, on this machine (process.h) or on another one.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tern::tools {

struct ProcessSpec {
  std::string name;                    // The name in messages, such as "worker 1".
  std::string host;                    // On which the process runs; "": this one.
  std::string program;                 // The path of the executable file.
  std::vector<std::string> arguments;  // The command line after the program's name.
  // Entries KEY=VALUE for the environment. An entry is ignored if the parent's environment has its
  // key.
  std::vector<std::string> environment;
  // Entries KEY=VALUE in place of those of the parent's environment with the same keys.
  std::vector<std::string> set_environment;
  std::string stdout_path, stderr_path;  // The files for the process's output.
  // True: the output is appended to these files. False: they are truncated.
  bool appends_output = false;
  // Descriptors for stdin and stdout; -1: /dev/null, and the file `stdout_path`.
  int stdin_fd = -1, stdout_fd = -1;
  // The descriptors that the child inherits, under the same numbers, besides its stdin, stdout and
  // stderr. All others are closed.
  std::vector<int> inherited_fds;
  // Whether this is a program of the user's, which may be a shell that starts others: signals go to
  // its whole process group, and what it leaves in there ends with it.
  bool is_users_program = false;
  // Whether this is a program of Tern's that takes SIGUSR1 and SIGUSR2: they wait until it does,
  // and do not end it while it starts.
  bool takes_user_signals = false;
};

// How a process ended.
struct Exit {
  int code = 0;
  int signal = 0;  // The signal that killed the process; 0: it exited with `code`.
  // The connection to the process's host was lost, and the process with it; `signal` is SIGKILL.
  bool was_lost = false;
};
// Returns "exited with code 65" or "was killed by signal 9 (Killed)".
std::string Describe(const Exit& exit);

// Not thread-safe.
class MemberProcess {
 public:
  virtual ~MemberProcess() = default;  // Kills the process if it still runs.

  // 0: not known yet.
  virtual pid_t pid() const = 0;
  // A descriptor that poll() reports as readable once the process has ended, and perhaps at other
  // times. Never read from it.
  virtual int event_fd() const = 0;
  // Returns how the process ended; empty while it runs. Never waits.
  virtual std::optional<Exit> TryWait() = 0;
  // Sends a signal to the process, and to its process group only if it is a program of the user's.
  // Does nothing once it has ended.
  virtual void Signal(int signal) = 0;
  // Returns the last error sentence ("PROGRAM: ...") that the process wrote to stderr, or else the
  // last fatal log line there, or else the last line; empty if the process wrote nothing.
  virtual std::string LastSentence() const = 0;
};

// Starts the processes of a job.
class ProcessStarter {
 public:
  virtual ~ProcessStarter() = default;

  // The errors are those of Process::Start.
  virtual Result<std::unique_ptr<MemberProcess>> Start(const ProcessSpec& spec) = 0;
  // Takes what processes on other machines have reported since the last call. Never waits.
  virtual void Receive() {}
  // When Receive is to be called at the latest, even if no event has come; empty: only then.
  virtual std::optional<Time> NextDue() const { return std::nullopt; }
};

}  // namespace tern::tools
