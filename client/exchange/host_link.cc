#include "client/exchange/host_link.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "client/exchange/host_folder.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/protocol/rounds/cells.h"
#include "setup/socket_limits.h"

namespace tern::client {

namespace {

using Leader = protocol::Exchange::Leader;

constexpr Time kPatience = std::chrono::seconds(2);        // for the pushes of others
constexpr Time kConnectTimeout = std::chrono::seconds(1);  // to the leader of the host
constexpr Time kRetry = std::chrono::milliseconds(100);
// A leader that hangs is left for so long.
constexpr Time kFirstPause = std::chrono::seconds(2), kLongestPause = std::chrono::seconds(60);
constexpr int kMaxMessagesATurn = 256;
constexpr const char* kLockName = "leader.lock";
constexpr const char* kSocketName = "leader.socket";

// Whether the plan has this cell, which is one for pushes.
bool HasCell(const protocol::ExchangePlan& plan, const protocol::Cell& cell) {
  return cell.bucket < plan.buckets.size() && cell.chunk < plan.buckets[cell.bucket].chunks.size();
}

protocol::HostLeader::Options LeaderOptions(const setup::Setup& setup, uint32_t rank) {
  protocol::HostLeader::Options options;
  options.rank = rank;
  options.workers = setup.plan.workers;
  options.patience = kPatience;
  options.has_cell = [&setup](const protocol::Cell& cell) { return HasCell(setup.plan, cell); };
  options.open = [&setup](const protocol::Cell& cell, uint64_t round) {
    return protocol::MakePushCell(setup.plan, setup.plan.chunk(cell.bucket, cell.chunk))
        .open(round);
  };
  return options;
}

void RaiseTo(Counter& counter, uint64_t target) { counter.Add(target - counter.value()); }

}  // namespace

HostLink::HostLink(const setup::Setup& setup, uint32_t rank, net::Context& context,
                   net::Poller& poller, protocol::Session& session, Registry& registry)
    : setup_(setup),
      rank_(rank),
      context_(context),
      poller_(poller),
      session_(session),
      leader_(LeaderOptions(setup, rank)),
      pause_(kFirstPause),
      sums_(registry.GetCounter("tern_worker_host_sums_total",
                                "Sums of pushes of this host's workers that this worker sent")),
      summed_(registry.GetCounter("tern_worker_host_summed_total", "Pushes in those sums")),
      alone_(registry.GetCounter("tern_worker_host_alone_total",
                                 "Pushes that this worker, as leader of its host, sent alone")),
      released_(registry.GetCounter(
          "tern_worker_host_released_total",
          "Times that this worker told another of its host to push to the servers itself")),
      left_host_(registry.GetCounter("tern_worker_host_fallbacks_total",
                                     "Pushes of this worker that were given to the leader of its "
                                     "host, and then sent to the servers")) {}

HostLink::~HostLink() {
  if (members_socket_ != nullptr) poller_.Remove(members_socket_.get());
  if (leader_socket_ != nullptr) poller_.Remove(leader_socket_.get());
}

void HostLink::Open(uint64_t run) {
  if (state_ != State::kOff || !folder_.empty()) return;
  const Result<std::string> folder = MakeHostFolder(setup_, run);
  if (!folder.ok()) {
    LOG(WARNING) << "exchange.host_sum: " << folder.status().message()
                 << "; this worker pushes to the servers itself";
    return;
  }
  folder_ = *folder;
  Become(State::kSeeking);
}

net::SocketOptions HostLink::LocalOptions() const {
  net::SocketOptions options;
  options.max_payload_bytes = setup::MaxPayloadBytes(setup_, 1);
  options.high_water_mark = 100000;  // never reached: credit_kib limits what is sent
  return options;
}

void HostLink::Seek(Time now) {
  if (leader_socket_ != nullptr) {
    if (leader_socket_->link() == net::DealerSocket::Link::kUp) return Become(State::kMember);
    if (now - connecting_since_ < kConnectTimeout) return;
    poller_.Remove(leader_socket_.get());
    leader_socket_.reset();
  }
  if (now < next_try_) return;
  next_try_ = now + kRetry;
  Result<FolderLock> lock = FolderLock::TryLock(folder_, kLockName, setup_.job.name());
  if (lock.ok() && lock->is_held()) {
    lock_ = std::move(*lock);
    return Lead();
  }
  if (now < avoids_leader_until_) return;
  connecting_since_ = now;
  auto socket =
      net::DealerSocket::ConnectLocal(context_, Cat(folder_, "/", kSocketName), LocalOptions());
  if (!socket.ok()) return;
  leader_socket_ = std::move(*socket);
  poller_.Add(leader_socket_.get());
}

void HostLink::Lead() {
  auto socket =
      net::RouterSocket::BindLocal(context_, Cat(folder_, "/", kSocketName), LocalOptions());
  if (!socket.ok()) {
    LOG(WARNING) << "exchange.host_sum: " << socket.status().message()
                 << "; this worker pushes to the servers itself";
    lock_.reset();
    return Become(State::kOff);
  }
  members_socket_ = std::move(*socket);
  poller_.Add(members_socket_.get());
  Become(State::kLeader);
  LOG(INFO) << "worker " << rank_ << " adds up the pushes of its host (exchange.host_sum)";
}

void HostLink::Turn(Time now, protocol::SessionActions* out) {
  if (state_ == State::kSeeking) Seek(now);
  if (state_ == State::kMember) ReceiveAsMember(now, out);
  if (state_ == State::kLeader) ReceiveAsLeader(now, out);
  session_.OnLeader(has_leader() ? Leader::kPresent : Leader::kNone, now, out);
  ExportCounters();
}

void HostLink::LoseLeader(Time now, protocol::SessionActions* out) {
  poller_.Remove(leader_socket_.get());
  leader_socket_.reset();
  Become(State::kSeeking);
  session_.OnLeader(Leader::kNone, now, out);
}

void HostLink::ReceiveAsMember(Time now, protocol::SessionActions* out) {
  for (int i = 0; i < kMaxMessagesATurn; ++i) {
    std::optional<net::ReceivedMessage> received = leader_socket_->Receive();
    if (!received.has_value()) break;
    if (received->error.has_value()) continue;
    protocol::Message message{std::move(received->envelope), std::move(received->payload)};
    if (message.head.has_refuse()) {
      session_.OnLeader(Leader::kRefuses, now, out);
      continue;
    }
    const pb::Outcome& sum = message.head.sum();
    const protocol::Cell cell{protocol::Kind::kPush, sum.bucket(), sum.chunk()};
    if (!message.head.has_sum() || !HasCell(setup_.plan, cell)) continue;
    pause_ = kFirstPause;
    session_.OnMessage(protocol::LaneOf(setup_.plan, cell), message, now, out);
  }
  if (leader_socket_->link() == net::DealerSocket::Link::kLost) return LoseLeader(now, out);
  LeaveLeaderThatHangs(now, out);
}

void HostLink::LeaveLeaderThatHangs(Time now, protocol::SessionActions* out) {
  const uint64_t num_lost = session_.exchange().counts().lost_by_leader;
  if (std::exchange(num_lost_by_leader_, num_lost) == num_lost) return;
  LOG(WARNING) << "the leader of this host hangs; this worker pushes to the servers itself for "
               << std::chrono::duration_cast<std::chrono::seconds>(pause_).count() << " s";
  avoids_leader_until_ = now + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
  LoseLeader(now, out);
}

void HostLink::ReceiveAsLeader(Time now, protocol::SessionActions* out) {
  for (int i = 0; i < kMaxMessagesATurn; ++i) {
    std::optional<net::ReceivedMessage> received = members_socket_->Receive();
    if (!received.has_value()) break;
    if (received->error.has_value() || !received->envelope.has_push()) continue;
    const uint32_t rank = received->envelope.push().rank();
    if (rank == rank_ || rank >= setup_.plan.workers) continue;
    peers_[rank] = received->peer;
    protocol::HostLeader::Actions actions;
    leader_.OnPush({std::move(received->envelope), std::move(received->payload)}, now, &actions);
    Execute(std::move(actions), now, out);
  }
  protocol::HostLeader::Actions actions;
  leader_.OnTimer(now, &actions);
  Execute(std::move(actions), now, out);
}

void HostLink::TellLeader(const protocol::Message& push, Time now, protocol::SessionActions* out) {
  if (state_ == State::kLeader) {
    protocol::HostLeader::Actions actions;
    leader_.OnPush(push, now, &actions);
    return Execute(std::move(actions), now, out);
  }
  if (state_ == State::kMember && leader_socket_->Send(push.head, push.payload).ok()) return;
  session_.OnLeader(Leader::kNone, now, out);
}

void HostLink::OnMessage(const protocol::Message& message, Time now,
                         protocol::SessionActions* out) {
  if (state_ != State::kLeader || !message.head.has_sum()) return;
  protocol::HostLeader::Actions actions;
  leader_.OnAnswer(message, &actions);
  Execute(std::move(actions), now, out);
}

void HostLink::OnLaneLost(protocol::LaneRef lane, Time now, protocol::SessionActions* out) {
  if (state_ != State::kLeader) return;
  protocol::HostLeader::Actions actions;
  leader_.OnLaneLost(
      [&](const protocol::Cell& cell) { return protocol::LaneOf(setup_.plan, cell) == lane; },
      &actions);
  Execute(std::move(actions), now, out);
}

protocol::LaneRef HostLink::LaneOf(const pb::Contribution& push) const {
  return protocol::LaneOf(setup_.plan, {protocol::Kind::kPush, push.bucket(), push.chunk()});
}

void HostLink::Execute(protocol::HostLeader::Actions actions, Time now,
                       protocol::SessionActions* out) {
  using Type = protocol::HostLeader::Action::Type;
  for (protocol::HostLeader::Action& action : actions) {
    const auto peer = peers_.find(action.rank);
    switch (action.type) {
      case Type::kSend: {
        const protocol::LaneRef lane = LaneOf(action.message.head.push());
        if (session_.exchange().IsUp(lane)) {
          out->push_back(protocol::MakeSend(lane, std::move(action.message)));
        } else {
          OnLaneLost(lane, now, out);
        }
        break;
      }
      case Type::kForward:
        // A worker that cannot be reached asks the servers for what it misses.
        if (peer != peers_.end())
          (void)members_socket_->Send(peer->second, action.message.head, action.message.payload);
        break;
      case Type::kRelease:
        if (action.rank == rank_) {
          session_.OnLeader(Leader::kRefuses, now, out);
        } else if (peer != peers_.end()) {
          (void)members_socket_->Send(
              peer->second,
              protocol::MakeRefusal(Code::kOk, "push to the servers yourself", pb::Refuse::again)
                  .head);
        }
        break;
    }
  }
}

void HostLink::ExportCounters() {
  const protocol::HostLeader::Counters& counters = leader_.counters();
  RaiseTo(sums_, counters.sums);
  RaiseTo(summed_, counters.summed);
  RaiseTo(alone_, counters.alone);
  RaiseTo(released_, counters.released);
  RaiseTo(left_host_, session_.exchange().counts().left_host);
}

void HostLink::RemoveFolder() {
  if (state_ != State::kLeader) return;
  unlink(Cat(folder_, "/", kLockName).c_str());
  unlink(Cat(folder_, "/", kSocketName).c_str());
  rmdir(folder_.c_str());
}

}  // namespace tern::client
