#include "tools/run/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "common/base/output_file.h"
#include "common/base/signals.h"
#include "common/base/text.h"

namespace tern::tools {
namespace {

// Owns a file descriptor and closes it.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedFd() { Close(); }
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

// Returns pointers into `strings` with a null pointer at the end, as execve takes them.
std::vector<char*> PointersTo(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// "KEY=" of an entry KEY=VALUE.
std::string KeyOf(const std::string& entry) { return entry.substr(0, entry.find('=') + 1); }

// Variables by which a service manager knows this process, which its children are not.
constexpr std::array<std::string_view, 3> kOfThisProcess = {
    "NOTIFY_SOCKET=", "WATCHDOG_PID=", "WATCHDOG_USEC="};

// Returns the environment of a process: this one's, with what `spec` adds and sets.
std::vector<std::string> EnvironmentOf(const ProcessSpec& spec) {
  std::vector<std::string> environment = spec.set_environment;
  const auto add_entry = [&environment](const std::string& entry) {
    const std::string key = KeyOf(entry);
    const bool is_known =
        std::any_of(environment.begin(), environment.end(),
                    [&key](const std::string& known) { return known.starts_with(key); });
    if (!is_known) environment.push_back(entry);
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const auto is_key = [key = KeyOf(*entry)](std::string_view known) { return key == known; };
    if (std::none_of(kOfThisProcess.begin(), kOfThisProcess.end(), is_key)) add_entry(*entry);
  }
  for (const std::string& entry : spec.environment) add_entry(entry);
  return environment;
}

Status CannotRunError(const ProcessSpec& spec, int error) {
  if (!spec.is_users_program) {
    return Status(Code::kAddress, Cat("cannot run ", spec.program, ": ", std::strerror(error),
                                      "; is the installation of Tern complete?"));
  }
  return Status(Code::kUsage,
                Cat("cannot run ", Printable(spec.program), ": ", std::strerror(error),
                    error == ENOEXEC || error == ENOENT
                        ? "; a script must name its interpreter in its first line (#!), and that "
                          "must exist"
                        : "; give another program after --"));
}

Result<OwnedFd> OpenOutput(const std::string& path, bool appends) {
  const Result<int> fd = appends ? OpenForAppending(path) : CreateAnew(path);
  if (fd.ok()) return OwnedFd(*fd);
  return Status(Code::kCannotWrite,
                Cat(fd.status().message(), "; give a directory that this user may write to"));
}

// What a child needs between fork and exec. If the program cannot run, the child writes errno
// to `error_pipe`.
struct Child {
  char* const* arguments;
  char* const* environment;
  int in_fd, out_fd, err_fd, error_pipe;
  const int* inherited_fds;
  size_t num_inherited;
  bool takes_user_signals;
  pid_t parent;
};

// Lets only stdin, stdout, stderr and the child's inherited descriptors survive exec. Returns false
// and sets errno if that fails. Makes only async-signal-safe calls.
bool KeepOnlyInheritedFds(const Child& child) {
  constexpr unsigned kFirstFd = STDERR_FILENO + 1;
  constexpr int kMaxFdWithoutCloseRange = 65536;
  if (syscall(SYS_close_range, kFirstFd, ~0u, CLOSE_RANGE_CLOEXEC) != 0) {
    // Linux before 5.11 cannot mark a range of descriptors.
    for (int fd = kFirstFd; fd < kMaxFdWithoutCloseRange; ++fd)
      (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  for (size_t i = 0; i < child.num_inherited; ++i) {
    if (fcntl(child.inherited_fds[i], F_SETFD, 0) != 0) return false;
  }
  return true;
}

// Runs in the child after fork, and calls exec. Makes only async-signal-safe calls, because the
// parent may have several threads.
[[noreturn]] void ExecChild(const Child& child) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != child.parent) _exit(128 + SIGKILL);  // The parent died before the call of prctl.
  const bool is_ready = dup2(child.in_fd, STDIN_FILENO) >= 0 &&
                        dup2(child.out_fd, STDOUT_FILENO) >= 0 &&
                        dup2(child.err_fd, STDERR_FILENO) >= 0 && KeepOnlyInheritedFds(child);
  StopSignals::Unblock();
  if (child.takes_user_signals) StopSignals::KeepUserSignals();
  if (is_ready) execve(child.arguments[0], child.arguments, child.environment);
  const int error = errno;
  if (write(child.error_pipe, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

// Returns one line of a program's stderr: the last error sentence ("PROGRAM: ..."), or else the
// last fatal log line (of a failed CHECK), or else the last line.
std::string PickErrorLine(const std::string& text, const std::string& program) {
  std::string last_line, fatal_line, sentence;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line.ends_with('\r')) line.pop_back();  // So ssh ends its lines.
    const bool is_log_line =
        line.size() > 5 && std::strchr("IWEF", line[0]) != nullptr && std::isdigit(line[1]) != 0;
    const size_t log_header_end = is_log_line ? line.find("] ") : std::string::npos;
    const std::string line_content =
        log_header_end == std::string::npos ? line : line.substr(log_header_end + 2);
    if (!is_log_line || line[0] != 'I') last_line = line_content;
    if (is_log_line && line[0] == 'F') fatal_line = line_content;
    if (line.starts_with(program + ": ")) sentence = line.substr(program.size() + 2);
  }
  return !sentence.empty() ? sentence : !fatal_line.empty() ? fatal_line : last_line;
}

bool IsProgram(const std::string& path) {
  std::error_code error;
  return access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path, error);
}

// The folders of the variable PATH, but not those without a leading slash.
std::vector<std::filesystem::path> FoldersOfPath() {
  const char* path_variable = getenv("PATH");
  std::istringstream path_list(path_variable == nullptr ? "" : path_variable);
  std::vector<std::filesystem::path> folders;
  for (std::string folder; std::getline(path_list, folder, ':');) {
    if (folder.starts_with('/')) folders.emplace_back(folder);
  }
  return folders;
}

// The path of the first program of this name in the folders; "" if there is none.
std::string FirstProgramIn(const std::vector<std::filesystem::path>& folders,
                           const std::string& name) {
  for (const std::filesystem::path& folder : folders) {
    const std::string candidate = (folder / name).string();
    if (!name.empty() && IsProgram(candidate)) return candidate;
  }
  return "";
}

}  // namespace

std::string Describe(const Exit& exit) {
  if (exit.was_lost) return "was lost with the connection to its host";
  if (exit.signal == 0) return Cat("exited with code ", exit.code);
  return Cat("was killed by signal ", exit.signal, " (", strsignal(exit.signal), ")");
}

Result<std::unique_ptr<Process>> Process::Start(const ProcessSpec& spec) {
  Result<OwnedFd> out_file =
      spec.stdout_fd < 0 ? OpenOutput(spec.stdout_path, spec.appends_output) : OwnedFd();
  if (!out_file.ok()) return out_file.status();
  Result<OwnedFd> err_file = OpenOutput(spec.stderr_path, spec.appends_output);
  if (!err_file.ok()) return err_file.status();
  const off_t stderr_begin = lseek(err_file->get(), 0, SEEK_END);
  const OwnedFd null_file(open("/dev/null", O_RDONLY));
  if (null_file.get() < 0) {
    return Status(Code::kAddress, Cat("cannot open /dev/null: ", std::strerror(errno),
                                      "; a chroot or container needs it, too: mount /dev there"));
  }

  std::vector<std::string> command = {spec.program};
  command.insert(command.end(), spec.arguments.begin(), spec.arguments.end());
  std::vector<std::string> environment = EnvironmentOf(spec);
  const std::vector<char*> command_pointers = PointersTo(command),
                           environment_pointers = PointersTo(environment);
  std::array<int, 2> pipe_fds{};
  if (pipe2(pipe_fds.data(), O_CLOEXEC) != 0)
    return Status(Code::kInternal, Cat("cannot create a pipe: ", std::strerror(errno)));
  OwnedFd error_reader(pipe_fds[0]), error_writer(pipe_fds[1]);
  const Child child{command_pointers.data(),
                    environment_pointers.data(),
                    spec.stdin_fd < 0 ? null_file.get() : spec.stdin_fd,
                    spec.stdout_fd < 0 ? out_file->get() : spec.stdout_fd,
                    err_file->get(),
                    error_writer.get(),
                    spec.inherited_fds.data(),
                    spec.inherited_fds.size(),
                    spec.takes_user_signals,
                    getpid()};
  const pid_t pid = fork();
  if (pid == 0) ExecChild(child);
  if (pid < 0)
    return Status(Code::kInternal, Cat("cannot start ", spec.name, ": ", std::strerror(errno)));
  // The child makes the same call. The parent's call ensures that the group exists when Start
  // returns.
  setpgid(pid, pid);
  error_writer.Close();
  int error = 0;
  // A successful exec closes the writing end. Then nothing can be read.
  if (read(error_reader.get(), &error, sizeof error) > 0) {
    waitpid(pid, nullptr, 0);
    return CannotRunError(spec, error);
  }
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const int open_error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return Status(Code::kInternal,
                  Cat("cannot watch ", spec.name, ": ", std::strerror(open_error)));
  }
  return std::unique_ptr<Process>(new Process(spec, pid, pidfd, stderr_begin));
}

Process::~Process() {
  Signal(SIGKILL);
  Reap(0);
  close(pidfd_);
}

void Process::Reap(int options) {
  if (exit_.has_value()) return;
  if (spec_.is_users_program) {
    // While the process is not reaped, no other group can have its number.
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT | options) != 0 ||
        info.si_pid != pid_)
      return;
    kill(-pid_, SIGKILL);
  }
  int wait_status = 0;
  if (waitpid(pid_, &wait_status, options) != pid_) return;
  exit_ =
      WIFSIGNALED(wait_status) ? Exit{0, WTERMSIG(wait_status)} : Exit{WEXITSTATUS(wait_status), 0};
}

std::optional<Exit> Process::TryWait() {
  Reap(WNOHANG);
  return exit_;
}

void Process::Signal(int signal) {
  // A process that is not reaped keeps its pid, so the signal cannot reach another process.
  if (!exit_.has_value()) kill(spec_.is_users_program ? -pid_ : pid_, signal);
}

std::string Process::LastSentence() const {
  constexpr off_t kMaxBytesRead = 16 << 10;
  OwnedFd fd(open(spec_.stderr_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return "";
  const off_t file_size = lseek(fd.get(), 0, SEEK_END);
  const off_t begin = std::max(stderr_begin_, file_size - kMaxBytesRead);
  std::string text(static_cast<size_t>(std::max<off_t>(0, file_size - begin)), '\0');
  const ssize_t bytes_read = pread(fd.get(), text.data(), text.size(), begin);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, bytes_read)));
  return LastSentenceIn(text, std::filesystem::path(spec_.program).filename());
}

Result<std::unique_ptr<MemberProcess>> LocalStarter::Start(const ProcessSpec& spec) {
  auto process = Process::Start(spec);
  if (!process.ok()) return process.status();
  return std::unique_ptr<MemberProcess>(std::move(*process));
}

std::string LastSentenceIn(const std::string& stderr_text, const std::string& program) {
  return PrintableSentence(PickErrorLine(stderr_text, program));
}

Result<std::string> FindProgram(const std::string& name) {
  std::error_code error;
  const std::filesystem::path own_folder =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<std::filesystem::path> folders = FoldersOfPath();
  folders.insert(folders.begin(), own_folder);
  const std::string path = FirstProgramIn(folders, name);
  if (!path.empty()) return path;
  return Status(Code::kAddress,
                Cat("cannot find the program ", name, ": it is neither in ", own_folder.string(),
                    ", beside tern, nor in PATH; install it there"));
}

Result<std::string> FindUsersProgram(const std::string& name) {
  std::error_code error;
  const bool has_folder = name.find('/') != std::string::npos;
  const std::string path =
      has_folder ? (IsProgram(name) ? name : "") : FirstProgramIn(FoldersOfPath(), name);
  if (!path.empty()) return path;
  const bool exists = !name.empty() && std::filesystem::exists(name, error);
  if (has_folder && exists) {
    return Status(Code::kUsage,
                  Cat("saw the program ", Printable(name),
                      ", which is no file that this user may execute; make it one with `chmod "
                      "+x`, or name its interpreter, as in: -- python FILE"));
  }
  return Status(Code::kUsage,
                Cat("saw the program '", Printable(name), "', which ",
                    has_folder ? "does not exist" : "is in no folder of PATH",
                    "; expected a program and its arguments after --, as in: -- python train.py",
                    exists ? Cat(", or with its folder: ./", Printable(name)) : ""));
}

}  // namespace tern::tools
