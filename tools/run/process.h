// A child process. It writes its output to files, has its own process group, and never outlives its
// parent.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "tools/run/member_process.h"

namespace tern::tools {

// Not thread-safe. Start children on the main thread: the kernel kills a child when the thread that
// started it ends.
class Process final : public MemberProcess {
 public:
  // Starts a process. Returns kAddress if the program cannot be run (kUsage: a program of the
  // user's), kCannotWrite if an output file cannot be opened.
  static Result<std::unique_ptr<Process>> Start(const ProcessSpec& spec);
  ~Process() override;

  const std::string& name() const { return spec_.name; }
  pid_t pid() const override { return pid_; }
  int event_fd() const override { return pidfd_; }
  std::optional<Exit> TryWait() override;
  void Signal(int signal) override;
  std::string LastSentence() const override;

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

// The starter of processes on this machine. The calling thread is that of Process::Start.
class LocalStarter final : public ProcessStarter {
 public:
  Result<std::unique_ptr<MemberProcess>> Start(const ProcessSpec& spec) override;
};

// Returns what MemberProcess::LastSentence says of a program's stderr. `program`: the name of its
// file.
std::string LastSentenceIn(const std::string& stderr_text, const std::string& program);

// Returns the path of one of Tern's programs. Looks in the folder of the running program, then in
// the folders of PATH; ignores those without a leading slash, and so never looks in the current
// folder. Returns kAddress if neither has the program.
Result<std::string> FindProgram(const std::string& name);
// Returns the path of a program of the user's: `name` itself if it has a slash, else the first one
// in the folders of PATH that have a leading slash. kUsage if there is none, or it may not be
// executed.
Result<std::string> FindUsersProgram(const std::string& name);

}  // namespace tern::tools
