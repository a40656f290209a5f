#include "tools/launch/remote_members.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>

#include "common/base/line_pipe.h"
#include "common/base/text.h"
#include "common/net/keys.h"
#include "setup/report.h"
#include "tools/run/process.h"
#include "tools/run/program_output.h"

namespace tern::tools {
namespace {

using std::chrono::seconds;

// Of a member's stderr, the end is kept for its last sentence.
constexpr size_t kMaxKeptBytes = 16 << 10;
// How long hosts may take to answer at first, and when it is said which ones have not.
constexpr Time kConnectTime = seconds(60), kNoticeAfter = seconds(3), kBetweenNotices = seconds(10);
// How often a host is tried again that cannot be reached, as while it reboots.
constexpr Time kBetweenTries = seconds(5);
// How long a host may take to report the end of a process that it was told to kill.
constexpr Time kKillTime = seconds(5);
constexpr Exit kLost = {.code = 0, .signal = SIGKILL, .was_lost = true};

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
      : members_(*members), state_(*state) {
    state_.process = this;
  }
  ~RemoteProcess() override {
    Signal(SIGKILL);
    if (state_.process == this) state_.process = nullptr;
  }

  pid_t pid() const override { return pid_; }
  // A lost connection would be readable all the time until it is tried again.
  int event_fd() const override {
    return host().retry_at.has_value() ? -1 : host().connection->event_fd();
  }
  std::optional<Exit> TryWait() override { return exit_; }
  void Signal(int signal) override {
    if (exit_.has_value()) return;
    if (signal != SIGUSR1) is_to_run_ = false;
    if (signal == SIGKILL && !killed_at_.has_value()) killed_at_ = Now();
    const Status& loss = host().connection->loss();
    if (!is_to_run_ && !loss.ok()) return SetExit(kLost, loss.message());
    pb::ToHost message;
    *message.mutable_signal()->mutable_member() = state_.start.member();
    message.mutable_signal()->set_number(signal);
    host().connection->Send(message);
  }
  std::string LastSentence() const override {
    if (!sentence_.empty()) return sentence_;
    const std::string& program = state_.start.program();
    const std::string daemon = state_.start.member().is_server() ? "tern_server" : "tern_worker";
    return LastSentenceIn(stderr_end_,
                          program.empty() ? daemon : program.substr(program.rfind('/') + 1));
  }

  // Whether no signal has told it to end.
  bool is_to_run() const { return is_to_run_; }
  bool has_ended() const { return exit_.has_value(); }
  // When its end has to be known, after SIGKILL.
  std::optional<Time> end_due() const {
    return has_ended() || !killed_at_.has_value() ? std::nullopt
                                                  : std::optional(*killed_at_ + kKillTime);
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
  const RemoteMembers::HostState& host() const { return members_.hosts_[state_.host]; }

  RemoteMembers& members_;
  RemoteMembers::MemberState& state_;
  pid_t pid_ = 0;
  bool is_to_run_ = true;
  std::optional<Time> killed_at_;
  std::string stderr_end_, sentence_;
  std::optional<Exit> exit_;
};

RemoteMembers::RemoteMembers(Ssh ssh, std::vector<pb::ToHost::Begin> begins, int progress_fd,
                             TerminalLine* line)
    : ssh_(std::move(ssh)), progress_fd_(progress_fd), line_(*line) {
  for (pb::ToHost::Begin& begin : begins) hosts_.emplace_back().begin = std::move(begin);
}

RemoteMembers::~RemoteMembers() = default;

Status RemoteMembers::Connect(HostState* host, bool appends_log) {
  auto connection = HostConnection::Start(ssh_, host->begin, appends_log);
  if (!connection.ok()) return connection.status();
  host->connection = std::move(*connection);
  return Ok();
}

Result<std::vector<pb::FromHost::Ready>> RemoteMembers::Connect(StopSignals* stop_signals) {
  const Time deadline = Now() + kConnectTime;
  Time notice_at = Now() + kNoticeAfter;
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
    const char* const program = ssh_.is_srun ? "srun" : "ssh";
    const std::string logs = Cat(ssh_.log_dir, "/ssh.HOST.stderr");
    if (now >= deadline) {
      return Status(Code::kAddress,
                    Cat(Join(awaited), " did not answer within ", Seconds(kConnectTime),
                        " s; what ", program, " says is in ", logs));
    }
    if (now >= notice_at) {
      line_.Print(Cat("still waiting for ", Join(awaited), " (", program, "; logs in ", logs, ")"));
      notice_at = now + kBetweenNotices;
    }
    const Time left = std::min(deadline, notice_at) - now;
    poll(fds.data(), fds.size(),
         static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
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

void RemoteMembers::AddMember(const std::string& name, size_t host, pb::ToHost::Start start,
                              Time return_time) {
  members_[name] = {host, std::move(start), return_time, nullptr};
}

Result<std::unique_ptr<MemberProcess>> RemoteMembers::Start(const ProcessSpec& spec) {
  MemberState& member = members_.at(spec.name);
  const HostState& host = hosts_[member.host];
  member.start.set_appends_output(spec.appends_output);
  auto process = std::make_unique<RemoteProcess>(this, &member);
  if (host.connection->loss().ok()) {
    SendStart(member);
  } else if (!host.retry_at.has_value()) {
    TERN_RETURN_IF_ERROR(Reconnect(member.host));
  }
  return std::unique_ptr<MemberProcess>(std::move(process));
}

void RemoteMembers::SendStart(const MemberState& member) {
  pb::ToHost message;
  pb::ToHost::Start& start = *message.mutable_start();
  start = member.start;
  keys_.AddTo(&start);
  hosts_[member.host].connection->Send(message);
  WipeSecrets(&start);
}

Status RemoteMembers::Reconnect(size_t host) {
  hosts_[host].retry_at.reset();
  TERN_RETURN_IF_ERROR(Connect(&hosts_[host], true));
  hosts_[host].connection->Send(job_);
  for (const MemberState* member : RunningOn(host)) SendStart(*member);
  return Ok();
}

void RemoteMembers::Receive() {
  const Time now = Now();
  for (HostState& host : hosts_) {
    for (const pb::FromHost& message : host.connection->Receive()) Handle(message, &host);
  }
  GiveUpSilentHosts(now);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (!hosts_[i].connection->loss().ok()) OnLoss(i, now);
  }
}

std::optional<Time> RemoteMembers::NextDue() const {
  std::optional<Time> next;
  const auto no_later_than = [&next](const std::optional<Time>& due) {
    if (due.has_value() && (!next.has_value() || *due < *next)) next = due;
  };
  for (const HostState& host : hosts_) no_later_than(host.retry_at);
  for (const auto& [name, member] : members_) {
    if (member.process != nullptr) no_later_than(member.process->end_due());
  }
  return next;
}

std::vector<RemoteMembers::MemberState*> RemoteMembers::RunningOn(size_t host) {
  std::vector<MemberState*> running;
  for (auto& [name, member] : members_) {
    if (member.host == host && member.process != nullptr && !member.process->has_ended())
      running.push_back(&member);
  }
  return running;
}

void RemoteMembers::GiveUpSilentHosts(Time now) {
  for (const auto& [name, member] : members_) {
    const std::optional<Time> due =
        member.process == nullptr ? std::nullopt : member.process->end_due();
    HostState& host = hosts_[member.host];
    if (!due.has_value() || now < *due || !host.connection->loss().ok()) continue;
    line_.Print(Cat(host.begin.name(), " does not answer; what runs there ends when Tern there ",
                    "finds its connection closed"));
    host.connection->GiveUp("it does not answer");
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
      host->lost_at.reset();
      host->is_absence_known = false;
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
      TakeProgress(message.progress());
      break;
    case pb::FromHost::BODY_NOT_SET:
      break;  // Of a later version.
  }
}

void RemoteMembers::TakeProgress(const std::string& bytes) {
  // After a stop (Ctrl-Z) more may come at once than the pipe holds.
  progress_lines_.Take(bytes, [this](const std::string& line) {
    const std::optional<setup::ProgressUpdate> update = setup::ParseProgressUpdate(line);
    const bool has_ended = update.has_value() && update->has_ended;
    WriteLine(progress_fd_, line, has_ended ? LineValue::kLasting : LineValue::kPassing);
  });
}

void RemoteMembers::OnLoss(size_t number, Time now) {
  HostState& host = hosts_[number];
  if (!host.lost_at.has_value()) host.lost_at = now;
  const std::string& loss = host.connection->loss().message();
  bool is_awaited = false;
  for (const MemberState* member : RunningOn(number)) {
    // What ran there is lost. What was to run there, on a host that is not back yet, can wait.
    if (!host.connection->was_reached() && member->process->is_to_run() &&
        now - *host.lost_at < member->return_time) {
      is_awaited = true;
    } else {
      member->process->SetExit(kLost, loss);
    }
  }
  if (!is_awaited) return host.retry_at.reset();
  if (!host.retry_at.has_value()) {
    host.retry_at = now + kBetweenTries;
    if (!std::exchange(host.is_absence_known, true))
      line_.Print(Cat(loss, "; it is tried again every ", Seconds(kBetweenTries), " s"));
  } else if (now >= *host.retry_at) {
    // If ssh cannot be started, the loss is found again at once, and the host is tried again later.
    static_cast<void>(Reconnect(number));
  }
}

void RemoteMembers::Print(const MemberState& member, bool is_stderr, const std::string& lines) {
  const std::string prefix =
      Cat("[", NameOf(member.start.member()), " on ", hosts_[member.host].begin.name(), "] ");
  PrintLines(prefix, is_stderr, lines, &line_);
}

}  // namespace tern::tools
