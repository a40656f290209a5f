// A child process: its output in files, a process group of its own, and never outliving its parent.
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
      environment;  // KEY=VALUE, for what the parent's environment does not set
  std::string stdout_path, stderr_path;
  bool append = false;  // to files that exist, instead of emptying them
  int fd = -1;          // the child has it under the same number; at least 3
};

// How a process ended.
struct Exit {
  int code = 0;
  int signal = 0;  // 0: it exited by itself, with `code`
};
// "exited with code 65", "was killed by signal 9 (Killed)".
std::string Describe(const Exit& exit);

// Threads: one. The parent's thread that starts children must be its main thread, or live as long:
// the kernel kills them when that thread ends, however it ends.
class Process {
 public:
  // kAddress if the program cannot be run, kUsage if a file cannot be written.
  static Result<std::unique_ptr<Process>> Start(const ProcessSpec& spec);
  ~Process();  // kills it, if it still runs

  const std::string& name() const { return spec_.name; }
  pid_t pid() const { return pid_; }
  // Readable once it has ended. Only to wait on.
  int pidfd() const { return pidfd_; }

  // How it ended; nothing while it runs. Never waits.
  std::optional<Exit> TryWait();
  // To the process alone; nothing once it has ended.
  void Signal(int signal);
  // What it said last on stderr: the sentence that it left with, else its newest line. Empty: it
  // said nothing.
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

// The path of a program of ours: from the folder of the running one, else from PATH. kAddress names
// both places.
Result<std::string> FindProgram(const std::string& name);

}  // namespace tern::tools
