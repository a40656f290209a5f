// A process that outlives this one by a moment: if this one is killed, it kills the programs of the
// user's with all that they have started. The kernel does so only with this process's own children.
#pragma once

#include <sys/types.h>

#include <memory>

#include "common/base/file.h"
#include "common/base/status.h"

namespace tern::tools {

class GroupGuard {
 public:
  // kInternal if the system starts no more processes.
  static Result<std::unique_ptr<GroupGuard>> Start();
  ~GroupGuard();  // Ends the guard, which kills nobody.
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  // Begins and ends to watch over a process group, whose first process is `leader`.
  void Watch(pid_t leader) { Tell(leader); }
  void Forget(pid_t leader) { Tell(-leader); }

  pid_t pid() const { return pid_; }

 private:
  GroupGuard(int pipe_fd, pid_t pid) : pipe_(pipe_fd), pid_(pid) {}
  void Tell(pid_t message);

  File pipe_;  // To the guard: a group to watch, minus a group to forget, or 0 to end.
  const pid_t pid_;
};

}  // namespace tern::tools
