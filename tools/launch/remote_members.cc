#include "tools/launch/remote_members.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/text.h"
#include "common/net/keys.h"
#include "tools/run/process.h"
#include "tools/run/program_output.h"

namespace tern::tools {
namespace {

// Of a member's stderr, the end is kept for its last sentence.
constexpr size_t kMaxKeptBytes = 16 << 10;

std::string NameOf(const pb::Member& member) {
  return Cat(member.is_server() ? "server " : "worker ", member.rank());
}

void WipeSecrets(pb::ToHost::Start* start) {
  for (std::string* secret : {start->mutable_secret(), start->mutable_checkpoint_secret()})
    net::Wipe(secret->data(), secret->size());
}

}  // namespace

// A member that was started on a host.
class RemoteProcess final : public MemberProcess {
 public:
  RemoteProcess(RemoteMembers* members, RemoteMembers::MemberState* state)
      : members_(*members), state_(*state), event_fd_(connection().event_fd()) {
    state_.process = this;
  }
  ~RemoteProcess() override {
    Signal(SIGKILL);
    if (state_.process == this) state_.process = nullptr;
  }

  pid_t pid() const override { return pid_; }
  int event_fd() const override { return event_fd_; }
  std::optional<Exit> TryWait() override { return exit_; }
  void Signal(int signal) override {
    if (exit_.has_value()) return;
    pb::ToHost message;
    *message.mutable_signal()->mutable_member() = state_.start.member();
    message.mutable_signal()->set_number(signal);
    connection().Send(message);
  }
  std::string LastSentence() const override {
    if (!sentence_.empty()) return sentence_;
    const std::string& program = state_.start.program();
    const std::string daemon = state_.start.member().is_server() ? "tern_server" : "tern_worker";
    return LastSentenceIn(stderr_end_,
                          program.empty() ? daemon : program.substr(program.rfind('/') + 1));
  }

  void SetStarted(pid_t pid) { pid_ = pid; }
  void AddStderr(const std::string& lines) {
    stderr_end_ += lines;
    if (stderr_end_.size() > 2 * kMaxKeptBytes)
      stderr_end_.erase(0, stderr_end_.size() - kMaxKeptBytes);
  }
  // `sentence`: why it ended, if it has not said so itself; "": it has.
  void SetExit(const Exit& exit, const std::string& sentence) {
    if (exit_.has_value()) return;
    exit_ = exit;
    sentence_ = sentence;
  }

 private:
  HostConnection& connection() const { return *members_.hosts_[state_.host].connection; }

  RemoteMembers& members_;
  RemoteMembers::MemberState& state_;
  const int event_fd_;
  pid_t pid_ = 0;
  std::string stderr_end_, sentence_;
  std::optional<Exit> exit_;
};

RemoteMembers::RemoteMembers(Ssh ssh, std::vector<pb::ToHost::Begin> begins, int progress_fd,
                             TerminalLine* line)
    : ssh_(std::move(ssh)), progress_fd_(progress_fd), line_(*line) {
  for (pb::ToHost::Begin& begin : begins) hosts_.push_back({std::move(begin), nullptr, {}});
}

RemoteMembers::~RemoteMembers() = default;

Status RemoteMembers::Connect(HostState* host, bool appends_log) {
  auto connection = HostConnection::Start(ssh_, host->begin, appends_log);
  if (!connection.ok()) return connection.status();
  host->connection = std::move(*connection);
  return Ok();
}

Result<std::vector<pb::FromHost::Ready>> RemoteMembers::Connect(Time deadline,
                                                                StopSignals* stop_signals) {
  for (HostState& host : hosts_) TERN_RETURN_IF_ERROR(Connect(&host, false));
  while (true) {
    Receive();
    std::vector<std::string> awaited;
    std::vector<pollfd> fds = {{stop_signals->fd(), POLLIN, 0}};
    for (const HostState& host : hosts_) {
      if (!host.connection->loss().ok()) return host.connection->loss();
      if (host.ready.has_value()) continue;
      awaited.push_back(host.begin.name());
      fds.push_back({host.connection->event_fd(), POLLIN, 0});
    }
    if (awaited.empty()) break;
    if (stop_signals->TakeSignal() != 0) return stop_signals->status();
    const Time now = Now();
    if (now >= deadline) {
      return Status(Code::kAddress, Cat(Join(awaited), " did not answer in time (",
                                        "faults.start_timeout_s); what ssh says is in ",
                                        ssh_.log_dir, "/ssh.HOST.stderr"));
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now).count();
    poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(left + 1, 60'000)));
  }
  std::vector<pb::FromHost::Ready> answers;
  for (const HostState& host : hosts_) answers.push_back(*host.ready);
  return answers;
}

void RemoteMembers::SetJob(const pb::ToHost::SetJob& job, MemberKeys keys) {
  *job_.mutable_job() = job;
  keys_ = std::move(keys);
  job_.mutable_job()->set_peers(keys_.peers_text());
  for (HostState& host : hosts_) {
    host.connection->Send(job_);
    host.begin.set_num_ports(0);  // A connection that is made again uses the same ones.
  }
}

void RemoteMembers::AddMember(const std::string& name, size_t host, pb::ToHost::Start start) {
  members_[name] = {host, std::move(start), nullptr};
}

Result<std::unique_ptr<MemberProcess>> RemoteMembers::Start(const ProcessSpec& spec) {
  MemberState& member = members_.at(spec.name);
  HostState& host = hosts_[member.host];
  if (!host.connection->loss().ok()) {
    TERN_RETURN_IF_ERROR(Connect(&host, true));
    host.connection->Send(job_);
  }
  pb::ToHost message;
  pb::ToHost::Start& start = *message.mutable_start();
  start = member.start;
  start.set_appends_output(spec.appends_output);
  keys_.AddTo(&start);
  host.connection->Send(message);
  WipeSecrets(&start);
  return std::unique_ptr<MemberProcess>(std::make_unique<RemoteProcess>(this, &member));
}

void RemoteMembers::Receive() {
  for (size_t i = 0; i < hosts_.size(); ++i) {
    HostState& host = hosts_[i];
    for (const pb::FromHost& message : host.connection->Receive()) Handle(message, &host);
    if (!host.connection->loss().ok()) OnLoss(i);
  }
}

RemoteMembers::MemberState* RemoteMembers::MemberOf(const pb::Member& member) {
  const auto found = members_.find(NameOf(member));
  return found == members_.end() || found->second.process == nullptr ? nullptr : &found->second;
}

void RemoteMembers::Handle(const pb::FromHost& message, HostState* host) {
  switch (message.body_case()) {
    case pb::FromHost::kReady:
      host->ready = message.ready();
      break;
    case pb::FromHost::kStarted: {
      MemberState* const member = MemberOf(message.started().member());
      if (member == nullptr) break;
      member->process->SetStarted(static_cast<pid_t>(message.started().pid()));
      line_.Print(Cat(NameOf(message.started().member()), " on ", host->begin.name(),
                      " is process ", message.started().pid()));
      break;
    }
    case pb::FromHost::kLines: {
      MemberState* const member = MemberOf(message.lines().member());
      if (member == nullptr) break;
      if (message.lines().is_stderr()) member->process->AddStderr(message.lines().text());
      Print(*member, message.lines().is_stderr(), message.lines().text());
      break;
    }
    case pb::FromHost::kExited: {
      MemberState* const member = MemberOf(message.exited().member());
      if (member == nullptr) break;
      member->process->SetExit({message.exited().code(), message.exited().signal()},
                               message.exited().sentence());
      break;
    }
    case pb::FromHost::kProgress:
      // Shard 0's own pipe may be full, too; it reports again soon.
      if (write(progress_fd_, message.progress().data(), message.progress().size()) < 0) break;
      break;
    case pb::FromHost::BODY_NOT_SET:
      break;  // Of a later version.
  }
}

void RemoteMembers::OnLoss(size_t host) {
  for (auto& [name, member] : members_) {
    if (member.host != host || member.process == nullptr) continue;
    member.process->SetExit({.code = 0, .signal = SIGKILL, .was_lost = true},
                            hosts_[host].connection->loss().message());
  }
}

void RemoteMembers::Print(const MemberState& member, bool is_stderr, const std::string& lines) {
  const std::string prefix =
      Cat("[", NameOf(member.start.member()), " on ", hosts_[member.host].begin.name(), "] ");
  PrintLines(prefix, is_stderr, lines, &line_);
}

}  // namespace tern::tools
