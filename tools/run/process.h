// A child process. It writes its output to files, has its own process group, and never outlives its
// parent.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

struct ProcessSpec {
  std::string name;                    // The name in messages, such as "worker 1".
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
  // The descriptors that the child inherits, under the same numbers, besides its stdin (/dev/null),
  // stdout and stderr. All others are closed.
  std::vector<int> inherited_fds;
  // Whether this is a program of the user's, which may be a shell that starts others: signals go to
  // its whole process group, and what it leaves in there ends with it.
  bool is_users_program = false;
};

// How a process ended.
struct Exit {
  int code = 0;
  int signal = 0;  // The signal that killed the process; 0: it exited with `code`.
};
// Returns "exited with code 65" or "was killed by signal 9 (Killed)".
std::string Describe(const Exit& exit);

// Not thread-safe. Start children on the main thread: the kernel kills a child when the thread that
// started it ends.
class Process {
 public:
  // Starts a process. Returns kAddress if the program cannot be run (kUsage: a program of the
  // user's), kCannotWrite if an output file cannot be opened.
  static Result<std::unique_ptr<Process>> Start(const ProcessSpec& spec);
  ~Process();  // Kills the process if it still runs.

  const std::string& name() const { return spec_.name; }
  pid_t pid() const { return pid_; }
  // A descriptor that poll() reports as readable once the process has ended. Never read from it.
  int pidfd() const { return pidfd_; }

  // Returns how the process ended; empty while it runs. Never waits.
  std::optional<Exit> TryWait();
  // Sends a signal to the process, and to its process group only if it is a program of the user's.
  // Does nothing once it has ended.
  void Signal(int signal);
  // Returns the last error sentence ("PROGRAM: ...") that the process wrote to stderr, or else the
  // last fatal log line there, or else the last line; empty if the process wrote nothing.
  std::string LastSentence() const;

 private:
  Process(ProcessSpec spec, pid_t pid, int pidfd, off_t stderr_begin)
      : spec_(std::move(spec)), pid_(pid), pidfd_(pidfd), stderr_begin_(stderr_begin) {}

  // Reaps the process if it has ended, or else waits for its end if `options` lacks WNOHANG.
  void Reap(int options);

  const ProcessSpec spec_;
  const pid_t pid_;
  const int pidfd_;
  const off_t stderr_begin_;  // The offset of this process's output in the stderr file.
  std::optional<Exit> exit_;
};

// Returns the path of one of Tern's programs. Looks in the folder of the running program, then in
// the folders of PATH; ignores those without a leading slash, and so never looks in the current
// folder. Returns kAddress if neither has the program.
Result<std::string> FindProgram(const std::string& name);
// Returns the path of a program of the user's: `name` itself if it has a slash, else the first one
// in the folders of PATH that have a leading slash. kUsage if there is none, or it may not be
// executed.
Result<std::string> FindUsersProgram(const std::string& name);

}  // namespace tern::tools
