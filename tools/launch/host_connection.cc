#include "tools/launch/host_connection.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "common/base/shell_word.h"
#include "common/base/text.h"

namespace tern::tools {
namespace {

using std::chrono::milliseconds;

// How long ssh may take to end after its connection.
constexpr milliseconds kSshEndTime(2000);
// More than a job, its list of keys and all members of a host need.
constexpr int kPipeBytes = 1 << 20;
// The code with which ssh ends if the fault is its own, and those of a shell that cannot start a
// program.
constexpr int kSshFailed = 255, kNotFound = 127, kNotExecutable = 126;

struct Pipe {
  int reader = -1, writer = -1;
};

Result<Pipe> MakePipe() {
  std::array<int, 2> fds{};
  if (pipe2(fds.data(), O_CLOEXEC) != 0)
    return Status(Code::kInternal, Cat("cannot create a pipe: ", std::strerror(errno)));
  fcntl(fds[1], F_SETPIPE_SZ, kPipeBytes);
  return Pipe{fds[0], fds[1]};
}

void AddSshArguments(const Ssh& ssh, const std::string& host, std::vector<std::string>* arguments) {
  // Of an option that is given twice ssh takes the first, so the user's go before these.
  if (std::filesystem::path(ssh.command.front()).filename() == "ssh") {
    for (const char* option :
         {"BatchMode=yes", "ConnectTimeout=20", "ServerAliveInterval=5", "ServerAliveCountMax=4"})
      arguments->insert(arguments->end(), {"-o", option});
    arguments->emplace_back("-T");
  }
  arguments->insert(arguments->end(), {host, ShellWord(ssh.tern) + " launch_host"});
}

ProcessSpec SpecOfSsh(const Ssh& ssh, const std::string& host, bool appends_log) {
  ProcessSpec spec;
  spec.name = "the connection to " + host;
  spec.program = ssh.command.front();
  spec.arguments.assign(ssh.command.begin() + 1, ssh.command.end());
  if (ssh.is_srun) {
    // One process on that node, beside others of the allocation.
    spec.arguments.insert(spec.arguments.end(),
                          {"--overlap", "--nodes=1", "--ntasks=1", "--unbuffered", "--export=ALL",
                           "--nodelist=" + host, ssh.tern, "launch_host"});
    // The address at which ssh reached the login node is not that of this node (ReachedAddress).
    spec.set_environment.push_back("SSH_CONNECTION=");
  } else {
    AddSshArguments(ssh, host, &spec.arguments);
  }
  spec.stderr_path = Cat(ssh.log_dir, "/ssh.", host, ".stderr");
  spec.appends_output = appends_log;
  return spec;
}

}  // namespace

Result<std::vector<std::string>> ParseSshCommand(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.empty()) return Status(Code::kUsage, "--ssh: saw nothing; expected a command, as ssh");
  Result<std::string> program = FindUsersProgram(words.front());
  if (!program.ok()) {
    return Status(Code::kUsage, Cat("--ssh: saw the program '", Printable(words.front()),
                                    "', which this machine does not have; install it (Debian: "
                                    "openssh-client), or give another command"));
  }
  words.front() = *std::move(program);
  return words;
}

Result<std::unique_ptr<HostConnection>> HostConnection::Start(const Ssh& ssh,
                                                              const pb::ToHost::Begin& begin,
                                                              bool appends_log) {
  ProcessSpec spec = SpecOfSsh(ssh, begin.name(), appends_log);
  const Result<Pipe> to_host = MakePipe();
  if (!to_host.ok()) return to_host.status();
  const File stdin_end(to_host->reader);
  const Result<Pipe> from_host = MakePipe();
  if (!from_host.ok()) {
    close(to_host->writer);
    return from_host.status();
  }
  const File stdout_end(from_host->writer);
  spec.stdin_fd = stdin_end.fd();
  spec.stdout_fd = stdout_end.fd();
  auto process = Process::Start(spec);
  std::unique_ptr<HostConnection> connection(
      new HostConnection(begin.name(), process.ok() ? std::move(*process) : nullptr,
                         to_host->writer, from_host->reader));
  if (!process.ok()) return process.status();
  fcntl(to_host->writer, F_SETFL, O_NONBLOCK);
  fcntl(from_host->reader, F_SETFL, O_NONBLOCK);
  pb::ToHost message;
  *message.mutable_begin() = begin;
  connection->Send(message);
  return connection;
}

HostConnection::HostConnection(std::string name, std::unique_ptr<Process> ssh, int to_host,
                               int from_host)
    : name_(std::move(name)), ssh_(std::move(ssh)) {
  to_host_.emplace(to_host);
  from_host_.emplace(from_host);
}

HostConnection::~HostConnection() {
  to_host_.reset();
  if (ssh_ == nullptr || ssh_->TryWait().has_value()) return;
  pollfd end{ssh_->event_fd(), POLLIN, 0};
  poll(&end, 1, static_cast<int>(kSshEndTime.count()));
}

void HostConnection::Send(const pb::ToHost& message) {
  if (!loss_.ok()) return;
  const Status status = WriteFrame(to_host_->fd(), message);
  if (status.code() != Code::kInternal) return;  // Receive finds out why ssh has ended.
  GiveUp(status.message());                      // Frames after a part of one would be damaged.
}

void HostConnection::GiveUp(const std::string& why) {
  ssh_->Signal(SIGKILL);
  SetLost(why);
}

std::vector<pb::FromHost> HostConnection::Receive() {
  std::vector<pb::FromHost> messages;
  while (loss_.ok()) {
    const ptrdiff_t num_read = reader_.ReadFrom(from_host_->fd());
    if (num_read < 0) break;
    if (!was_greeted_) was_greeted_ = reader_.SkipToGreeting();
    while (was_greeted_) {
      pb::FromHost message;
      const Result<bool> is_there = reader_.Next(&message);
      if (!is_there.ok()) {
        GiveUp(is_there.status().message());
        break;
      }
      if (!*is_there) break;
      messages.push_back(std::move(message));
    }
    if (num_read == 0) SetLost("");
  }
  return messages;
}

void HostConnection::SetLost(const std::string& what) {
  if (!loss_.ok()) return;
  pollfd end{ssh_->event_fd(), POLLIN, 0};
  poll(&end, 1, static_cast<int>(kSshEndTime.count()));
  const std::optional<Exit> exit = ssh_->TryWait();
  const int code = exit.has_value() && exit->signal == 0 ? exit->code : 0;
  const bool has_failed_there = code != 0 && code != kSshFailed;
  const std::string prefix = "tern: ";  // of what the host's program says, perhaps a warning
  std::string sentence = ssh_->LastSentence();
  const bool is_programs = sentence.starts_with(prefix);
  if (what.empty() && is_programs && has_failed_there) {
    loss_ = Status(ParseErrorCode(static_cast<uint32_t>(code)),
                   Cat(name_, ": ", sentence.substr(prefix.size())));
    return;
  }
  if (!what.empty() || is_programs) sentence = what;
  if (sentence.empty())
    sentence = exit.has_value() ? "ssh " + Describe(*exit) : "the connection has ended";
  if (code == kNotFound || code == kNotExecutable) {
    sentence += "; Tern has to be there, too: at the same path, or give the other with --tern";
  } else if (code == kSshFailed && !was_greeted_) {
    sentence += "; `ssh " + name_ + " true` has to work without questions";
  }
  loss_ = Status(was_greeted_ ? Code::kPeerLost : Code::kAddress, Cat(name_, ": ", sentence));
}

}  // namespace tern::tools
