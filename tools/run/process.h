// A child process: its output goes to files, it has its own process group, and never outlives its
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
  std::string name;                    // for people: "worker 1"
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
  int signal = 0;  // 0: it exited, with `code`
};
// "exited with code 65", "was killed by signal 9 (Killed)".
std::string Describe(const Exit& exit);

// One thread. Children must be started by the parent's main thread, or one that lives as long: the
// kernel kills them when that thread ends.
class Process {
 public:
  // kAddress if the program cannot be run, kUsage if a file cannot be written.
  static Result<std::unique_ptr<Process>> Start(const ProcessSpec& spec);
  ~Process();  // kills it, if it still runs

  const std::string& name() const { return spec_.name; }
  pid_t pid() const { return pid_; }
  // Readable once the process has ended. Poll it, never read it.
  int pidfd() const { return pidfd_; }

  // How it ended; nothing while it runs. Never waits.
  std::optional<Exit> TryWait();
  // Signals the process only, not its group; does nothing once it has ended.
  void Signal(int signal);
  // Its last words on stderr: the sentence that it ended with, else its newest line; empty if it
  // wrote nothing.
  std::string LastSentence() const;

 private:
  Process(ProcessSpec spec, pid_t pid, int pidfd, off_t stderr_begin)
      : spec_(std::move(spec)), pid_(pid), pidfd_(pidfd), stderr_begin_(stderr_begin) {}

  const ProcessSpec spec_;
  const pid_t pid_;
  const int pidfd_;
  const off_t stderr_begin_;  // where its part of the file begins
  std::optional<Exit> exit_;
};

// The path of one of our programs: in the folder of the running one, else in PATH. kAddress names
// both places.
Result<std::string> FindProgram(const std::string& name);

}  // namespace tern::tools
