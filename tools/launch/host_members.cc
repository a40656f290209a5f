#include "tools/launch/host_members.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "common/net/address.h"
#include "common/net/keys.h"
#include "setup/environment.h"
#include "setup/key_files.h"
#include "setup/security.h"
#include "setup/setup.h"
#include "tools/launch/frames.h"
#include "tools/launch/launched_job.h"
#include "tools/launch/users_program.h"
#include "tools/run/free_ports.h"
#include "tools/run/local_job.h"

namespace tern::tools {
namespace {

// A process that has lost its launcher kills its members at once.
constexpr Time kLockPatience = std::chrono::seconds(8);
constexpr Time kBetweenTries = std::chrono::milliseconds(50);

std::vector<std::string> AddressesOfThisHost() {
  std::vector<std::string> addresses;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return addresses;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    const int family = each->ifa_addr == nullptr ? AF_UNSPEC : each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    std::array<char, NI_MAXHOST> text{};
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(each->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
        0)
      addresses.emplace_back(text.data());
  }
  freeifaddrs(first);
  return addresses;
}

// The address at which sshd was reached: the third word of SSH_CONNECTION. "": unknown.
std::string ReachedAddress() {
  const char* const connection = std::getenv("SSH_CONNECTION");
  std::istringstream words(connection == nullptr ? "" : connection);
  std::string client, client_port, server;
  words >> client >> client_port >> server;
  return server;
}

uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

Status StrangeMessage() {
  return Status(Code::kMismatch,
                "saw a message that does not belong here; only `tern launch` of the same version "
                "starts launch_host");
}

}  // namespace

Result<std::unique_ptr<HostMembers>> HostMembers::Make() {
  auto guard = GroupGuard::Start();
  if (!guard.ok()) return guard.status();
  std::unique_ptr<HostMembers> members(new HostMembers(std::move(*guard)));
  TERN_RETURN_IF_ERROR(members->progress_.status());
  return members;
}

HostMembers::HostMembers(std::unique_ptr<GroupGuard> guard)
    : guard_(std::move(guard)),
      output_([this](const ProcessSpec& spec, bool is_stderr, std::string lines) {
        pb::FromHost message;
        for (const auto& [key, child] : children_) {
          if (child.spec.name == spec.name)
            *message.mutable_lines()->mutable_member() = child.member;
        }
        message.mutable_lines()->set_is_stderr(is_stderr);
        message.mutable_lines()->set_text(std::move(lines));
        if (send_status_.ok()) send_status_ = Send(message);
      }) {}

Status HostMembers::Send(const pb::FromHost& message) { return WriteFrame(STDOUT_FILENO, message); }

Status HostMembers::Handle(pb::ToHost* message) {
  switch (message->body_case()) {
    case pb::ToHost::kBegin:
      return Begin(message->begin());
    case pb::ToHost::kJob:
      return SetJob(message->job());
    case pb::ToHost::kStart:
      return job_.has_value() ? Start(message->mutable_start()) : StrangeMessage();
    case pb::ToHost::kSignal: {
      const pb::Member& member = message->signal().member();
      const auto child = children_.find({member.is_server(), member.rank()});
      if (child != children_.end() && child->second.process != nullptr)
        child->second.process->Signal(message->signal().number());
      return Ok();
    }
    case pb::ToHost::BODY_NOT_SET:
      break;
  }
  return StrangeMessage();
}

Status HostMembers::Begin(const pb::ToHost::Begin& begin) {
  begin_ = begin;
  if (chdir(begin.folder().c_str()) != 0) {
    return Status(Code::kAddress,
                  Cat("cannot enter the folder ", begin.folder(), ": ", std::strerror(errno),
                      "; the job runs in the same folder on every host: create it there, with the "
                      "job's data, or name another with --workdir"));
  }
  pb::FromHost message;
  pb::FromHost::Ready& ready = *message.mutable_ready();
  ready.set_address(ReachedAddress());
  for (const std::string& address : AddressesOfThisHost()) ready.add_addresses(address);
  std::set<uint16_t> taken;
  for (uint32_t i = 0; i < begin.num_ports(); ++i) {
    const std::string host = ready.address().empty() ? begin.name() : ready.address();
    const Result<std::vector<std::string>> addresses = net::Resolve(host);
    if (!addresses.ok()) return addresses.status();
    const Result<uint16_t> port =
        FindFreePort(addresses->front(), begin.number(), std::max(1u, begin.num_hosts()), &taken);
    if (!port.ok()) return port.status();
    ready.add_ports(*port);
  }
  return Send(message);
}

Status HostMembers::LockHost(const std::string& folder) {
  const std::string name = Cat("launch_host.", begin_.number(), ".lock");
  const Time deadline = Now() + kLockPatience;
  while (true) {
    auto lock = FolderLock::TryLock(folder, name, job_->name());
    if (lock.ok()) {
      lock_.emplace(std::move(*lock));
      return Ok();
    }
    if (Now() >= deadline) return lock.status();
    std::this_thread::sleep_for(kBetweenTries);
  }
}

Status HostMembers::SetJob(const pb::ToHost::SetJob& set_job) {
  Result<pb::Job> job =
      config::ParseJob(set_job.yaml(), "the job of tern launch", {}, setup::KnownNames());
  if (!job.ok()) return job.status();
  job_ = *std::move(job);
  log_dir_ = set_job.log_dir();
  launch_ = set_job.launch();
  TERN_RETURN_IF_ERROR(PrepareFolders(*job_, log_dir_));
  TERN_RETURN_IF_ERROR(LockHost(job_->output_dir()));
  if (!set_job.peers().empty()) {
    setup::ForbidDumps();
    Result<net::AllowList> peers = setup::ParsePeers(set_job.peers(), "the launcher's list");
    if (!peers.ok()) return peers.status();
    peers_ = *std::move(peers);
  }
  std::error_code error;
  job_file_ = std::filesystem::absolute(LaunchedJobFile(*job_), error).string();
  return WriteFileAtomically(job_file_, set_job.yaml());
}

Result<ProcessSpec> HostMembers::SpecOf(const pb::ToHost::Start& start, uint32_t place) const {
  const std::string role = start.member().is_server() ? "server" : "worker";
  ProcessSpec spec = tools::SpecOf(log_dir_, role, start.member().rank());
  spec.arguments.assign(start.arguments().begin(), start.arguments().end());
  spec.appends_output = start.appends_output();
  if (start.program().empty()) {
    Result<std::string> program = FindProgram("tern_" + role);
    if (!program.ok()) return program.status();
    spec.program = *std::move(program);
    spec.takes_user_signals = true;
    spec.arguments.insert(
        spec.arguments.end(),
        {"--job", job_file_, "--rank", Cat(start.member().rank()), "--log_dir", log_dir_});
  } else {
    Result<std::string> program = FindUsersProgram(start.program());
    if (!program.ok()) return program.status();
    SetUsersProgram(*program, *job_, job_file_, start.member().rank(),
                    ThreadsOfPrograms(start.num_programs()), &spec);
  }
  if (!start.member().is_server()) spec.set_environment.push_back(Cat("TERN_LOCAL_RANK=", place));
  spec.set_environment.push_back(setup::LaunchEntry(launch_));
  // The job file has all keys.
  for (std::string& unset : setup::WithoutPlace()) spec.set_environment.push_back(std::move(unset));
  return spec;
}

Status HostMembers::TryStart(pb::ToHost::Start* start, Child* child) {
  Result<ProcessSpec> spec = SpecOf(*start, child->place);
  if (!spec.ok()) return spec.status();
  child->spec = *spec;  // Without the descriptors below, which end with this function.
  if (start->member().is_server() && start->member().rank() == 0) {
    spec->inherited_fds = {progress_.writer()};
    spec->arguments.insert(spec->arguments.end(), {"--progress_fd", Cat(progress_.writer())});
  }
  std::optional<File> keys_file;
  if (!start->secret().empty()) {
    const Result<net::SecretKey> secret = net::ParseSecretKey(start->secret());
    if (!secret.ok()) return secret.status();
    std::optional<net::SecretKey> checkpoint_secret;
    if (!start->checkpoint_secret().empty()) {
      Result<net::SecretKey> read = net::ParseSecretKey(start->checkpoint_secret());
      if (!read.ok()) return read.status();
      checkpoint_secret = std::move(*read);
    }
    const Result<int> fd = setup::MakeKeysFd(
        *secret, checkpoint_secret.has_value() ? &*checkpoint_secret : nullptr, peers_);
    if (!fd.ok()) return fd.status();
    keys_file.emplace(*fd);
    GiveKeysFd(*fd, &*spec);
  }
  const uint64_t stdout_size = spec->appends_output ? SizeOf(spec->stdout_path) : 0,
                 stderr_size = spec->appends_output ? SizeOf(spec->stderr_path) : 0;
  auto process = Process::Start(*spec);
  if (!process.ok()) return process.status();
  child->process = std::move(*process);
  if (spec->is_users_program) guard_->Watch(child->process->pid());
  if (std::exchange(child->has_output, true)) return Ok();
  return output_.Add(child->spec, stdout_size, stderr_size);
}

Status HostMembers::Start(pb::ToHost::Start* start) {
  const pb::Member& member = start->member();
  const auto [entry, is_new] = children_.try_emplace({member.is_server(), member.rank()});
  Child& child = entry->second;
  child.member = member;
  if (is_new && !member.is_server()) child.place = num_workers_++;
  const Status status = TryStart(start, &child);
  for (std::string* secret : {start->mutable_secret(), start->mutable_checkpoint_secret()})
    net::Wipe(secret->data(), secret->size());
  pb::FromHost message;
  if (status.ok()) {
    *message.mutable_started()->mutable_member() = member;
    message.mutable_started()->set_pid(child.process->pid());
  } else {
    pb::FromHost::Exited& exited = *message.mutable_exited();
    *exited.mutable_member() = member;
    exited.set_code(ExitCode(status));
    exited.set_sentence(status.message());
  }
  return Send(message);
}

void HostMembers::AddPollFds(std::vector<pollfd>* fds) const {
  fds->push_back({progress_.reader(), POLLIN, 0});
  for (const auto& [key, child] : children_) {
    if (child.process != nullptr) fds->push_back({child.process->event_fd(), POLLIN, 0});
  }
}

bool HostMembers::AnyRuns() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const auto& entry) { return entry.second.process != nullptr; });
}

Status HostMembers::ReportProgress() {
  std::array<char, 16384> buffer;
  for (ssize_t num_read = 0;
       (num_read = read(progress_.reader(), buffer.data(), buffer.size())) > 0;) {
    pb::FromHost message;
    message.set_progress(buffer.data(), static_cast<size_t>(num_read));
    TERN_RETURN_IF_ERROR(Send(message));
  }
  return Ok();
}

Status HostMembers::Report() {
  TERN_RETURN_IF_ERROR(ReportProgress());
  output_.PrintNew();
  for (auto& [key, child] : children_) {
    if (child.process == nullptr) continue;
    const std::optional<Exit> exit = child.process->TryWait();
    if (!exit.has_value()) continue;
    if (child.spec.is_users_program) guard_->Forget(child.process->pid());
    child.process.reset();
    output_.Finish(child.spec);
    TERN_RETURN_IF_ERROR(ReportProgress());  // Shard 0 reports the job's end, then exits.
    pb::FromHost message;
    *message.mutable_exited()->mutable_member() = child.member;
    message.mutable_exited()->set_code(exit->code);
    message.mutable_exited()->set_signal(exit->signal);
    TERN_RETURN_IF_ERROR(Send(message));
  }
  return send_status_;
}

}  // namespace tern::tools
