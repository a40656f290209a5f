// A child process. Its output goes to files; it has its own process group; it never outlives its
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
  std::string name;                    // for messages: "worker 1"
  std::string program;                 // a path
  std::vector<std::string> arguments;  // without the program's name
  std::vector<std::string>
      environment;  // KEY=VALUE, for variables that the parent's environment does not set
  std::string stdout_path, stderr_path;
  bool append = false;  // append to existing files instead of truncating them
  int fd = -1;          // passed to the child under the same number; at least 3
};

// How a process ended.
struct Exit {
  int code = 0;
  int signal = 0;  // the signal that killed it; 0: it exited with `code`
};
// "exited with code 65", "was killed by signal 9 (Killed)".
std::string Describe(const Exit& exit);

// Belongs to one thread. Start children on the main thread, or on one that lives as long: the
// kernel kills a child when the thread that started it ends.
class Process {
 public:
  // kAddress if the program cannot be run, kUsage if a file cannot be written.
  static Result<std::unique_ptr<Process>> Start(const ProcessSpec& spec);
  ~Process();  // kills the process if it still runs

  const std::string& name() const { return spec_.name; }
  pid_t pid() const { return pid_; }
  // Readable once the process has ended. Poll it, never read it.
  int pidfd() const { return pidfd_; }

  // How the process ended; empty while it runs. Never waits.
  std::optional<Exit> TryWait();
  // Signals the process only, not its group; does nothing once it has ended.
  void Signal(int signal);
  // The error sentence that the process wrote to stderr at its end, or else its last line there;
  // empty if it wrote nothing.
  std::string LastSentence() const;

 private:
  Process(ProcessSpec spec, pid_t pid, int pidfd, off_t stderr_begin)
      : spec_(std::move(spec)), pid_(pid), pidfd_(pidfd), stderr_begin_(stderr_begin) {}

  const ProcessSpec spec_;
  const pid_t pid_;
  const int pidfd_;
  const off_t stderr_begin_;  // where this process's output begins in the file
  std::optional<Exit> exit_;
};

// Finds one of Tern's programs in the folder of the running program, or else in PATH. kAddress,
// with both places, if it is in neither.
Result<std::string> FindProgram(const std::string& name);

}  // namespace tern::tools
