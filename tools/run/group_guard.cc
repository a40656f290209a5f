#include "tools/run/group_guard.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "common/base/text.h"

namespace tern::tools {
namespace {

constexpr size_t kMaxGroups = 4096;

// Runs in the guard. Makes only async-signal-safe calls, because the parent has several threads.
[[noreturn]] void Guard(int pipe_fd) {
  setsid();  // A signal to the parent's group does not reach the guard.
  prctl(PR_SET_NAME, "tern_guard");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  // Whoever reads the parent's output does not wait for the guard, nor does another end of a pipe.
  if (dup2(pipe_fd, STDIN_FILENO) != STDIN_FILENO ||
      syscall(SYS_close_range, STDIN_FILENO + 1, ~0u, 0) != 0) {
    for (int fd = STDIN_FILENO + 1; fd < 65536; ++fd) close(fd);  // Linux before 5.9
  }
  std::array<pid_t, kMaxGroups> groups{};
  size_t num_groups = 0;
  pid_t message = 0;
  while (read(STDIN_FILENO, &message, sizeof message) == sizeof message) {
    if (message == 0) _exit(0);
    const auto end = groups.begin() + num_groups;
    if (message > 0 && num_groups < kMaxGroups) {
      groups[num_groups++] = message;
    } else if (const auto found = std::find(groups.begin(), end, -message); found != end) {
      *found = groups[--num_groups];
    }
  }
  // The parent was killed. A group keeps its number while anybody is in it.
  for (size_t i = 0; i < num_groups; ++i) kill(-groups[i], SIGKILL);
  _exit(0);
}

}  // namespace

Result<std::unique_ptr<GroupGuard>> GroupGuard::Start() {
  std::array<int, 2> pipe_fds{};
  if (pipe2(pipe_fds.data(), O_CLOEXEC) != 0)
    return Status(Code::kInternal, Cat("cannot create a pipe: ", std::strerror(errno)));
  const pid_t pid = fork();
  if (pid == 0) {
    close(pipe_fds[1]);
    Guard(pipe_fds[0]);
  }
  const int error = errno;
  close(pipe_fds[0]);
  if (pid > 0) return std::unique_ptr<GroupGuard>(new GroupGuard(pipe_fds[1], pid));
  close(pipe_fds[1]);
  return Status(Code::kInternal,
                Cat("cannot start a process: ", std::strerror(error), "; see `ulimit -u`"));
}

GroupGuard::~GroupGuard() {
  Tell(0);
  waitpid(pid_, nullptr, 0);
}

void GroupGuard::Tell(pid_t message) {
  // Fails only if somebody has killed the guard. The job does not need it.
  while (write(pipe_.fd(), &message, sizeof message) < 0 && errno == EINTR) {
  }
}

}  // namespace tern::tools
