#include "tests/sim/toy_server.h"

#include <algorithm>
#include <utility>

#include "common/protocol/members/follower.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/lane_members.h"
#include "tests/sim/world.h"

namespace tern::sim {

using protocol::ControlAction;
using protocol::ControlActions;
using protocol::LaneRef;
using protocol::Message;
using protocol::Peer;
using protocol::Sends;

namespace {

// A membership message waits this long again while the process sleeps.
constexpr protocol::Time kMembersRetry = std::chrono::seconds(60);

}  // namespace

ToyServer::ToyServer(World* world, uint32_t process, uint32_t shard, uint64_t incarnation)
    : world_(world), process_number_(process), shard_(shard) {
  const Schedule& schedule = world->schedule();
  const uint32_t num_data_lanes = schedule.data_lanes[shard];
  for (uint32_t l = 1; l <= num_data_lanes; ++l) ports_.push_back(process * 10 + l + 1000);
  protocol::ControlOptions options;
  options.shard = shard;
  options.shards = schedule.shards();
  options.workers = schedule.workers;
  options.incarnation = incarnation;
  options.data_ports = ports_;
  options.expected_hello = world->ExpectedHello();
  options.timings = schedule.timings;
  options.elasticity = schedule.elasticity;
  options.window = schedule.lane_window();
  options.workers_hold_state = schedule.has_rounds();
  options.safeguards = world->safeguards();
  options.can_resume = schedule.checkpoint_every != 0;
  if (schedule.servers_hold_state()) {
    options.begins_from_shards = schedule.has_rounds();
    options.shard_keeps_state = protocol::ShardsThatKeepState(world->job().plan);
    if (options.ShardKeepsState(shard))
      options.find_saved_checkpoints = [this] { return CheckpointsOfAllLanes(); };
    if (shard == 0 && !schedule.has_rounds())
      options.find_last_step = [this] { return LastStepOfLanes(); };
  }
  if (schedule.has_rounds()) options.last_checkpoint_step = [](uint64_t steps) { return steps; };
  for (uint32_t l = 1; l <= num_data_lanes; ++l) MakeLane(l, incarnation);
  members_.resize(num_data_lanes);
  known_members_.resize(num_data_lanes);
  auto cells = world->layout().RoundCells({shard, 0}, world->report());
  if (shard == 0) {
    auto coordinator =
        std::make_unique<protocol::Coordinator>(std::move(options), std::move(cells));
    coordinator_ = coordinator.get();
    control_ = std::move(coordinator);
  } else {
    control_ = std::make_unique<protocol::Follower>(std::move(options), std::move(cells));
  }
}

void ToyServer::MakeLane(uint32_t lane, uint64_t incarnation) {
  const Schedule& schedule = world_->schedule();
  const LaneRef lane_ref{shard_, lane};
  protocol::RoundLane::Options options;
  options.workers = schedule.workers;
  options.window = schedule.lane_window();
  options.quorum = schedule.elasticity.quorum;
  options.shrink = schedule.shrinks();
  options.incarnation = incarnation;
  options.decides_last_round = shard_ == 0 && lane == 1;
  options.is_checkpoint_due = [every = schedule.checkpoint_every](uint64_t first, uint64_t last) {
    return every == 0 || last / every > (first - 1) / every;
  };
  options.safeguards = world_->safeguards();
  if (schedule.servers_hold_state()) {
    lanes_.push_back(std::make_unique<PlayedLane>(world_, lane_ref, std::move(options)));
    return;
  }
  if (shard_ == 0)
    options.learning_rate = [&schedule](uint64_t round) { return LearningRate(schedule, round); };
  round_lanes_.push_back(std::make_unique<protocol::RoundLane>(
      std::move(options), world_->layout().RoundCells(lane_ref, world_->report())));
}

protocol::SavedCheckpoints ToyServer::CheckpointsOfAllLanes() const {
  std::vector<protocol::SavedCheckpoints> saved_of_lanes;
  for (const auto& lane : lanes_) {
    if (auto saved = lane->lane().Saved(); saved.has_value())
      saved_of_lanes.push_back(std::move(*saved));
  }
  return protocol::CommonCheckpoints(saved_of_lanes);
}

uint64_t ToyServer::LastStepOfLanes() const {
  uint64_t last_step = 0;
  for (const auto& lane : lanes_) last_step = std::max(last_step, lane->lane().last_step());
  return last_step;
}

std::vector<const protocol::RoundLane*> ToyServer::round_lanes() const {
  std::vector<const protocol::RoundLane*> lanes = {&control_->lane()};
  for (const auto& lane : round_lanes_) lanes.push_back(lane.get());
  if (!world_->schedule().is_central) return lanes;
  for (const auto& lane : lanes_)
    lanes.push_back(static_cast<const protocol::RoundLane*>(&lane->lane().lane()));
  return lanes;
}

void ToyServer::Start() {
  ControlActions actions;
  control_->Start(Now(), &actions);
  PerformActions(std::move(actions));
}

bool ToyServer::ListensAt(LaneRef lane, uint32_t port) const {
  if (!is_alive_ || asleep_since_.has_value() || lane.shard != shard_) return false;
  return lane.lane == 0 ? port == 0 : lane.lane <= ports_.size() && port == ports_[lane.lane - 1];
}

void ToyServer::OnMessage(uint32_t lane, Peer from, const Message& message) {
  if (!is_alive_) return;
  if (asleep_since_.has_value()) {
    inbox_.push_back({lane, from, message});
    return;
  }
  if (lane == 0) {
    ControlActions actions;
    control_->OnMessage(from, message, Now(), &actions);
    return PerformActions(std::move(actions));
  }
  Sends sends;
  OnLaneMessage(lane - 1, from, message, &sends);
  if (world_->KillIfDiskStopped(process_number_)) return;
  SendToClients(std::move(sends));
  if (lanes_.empty()) return;
  lanes_[lane - 1]->AfterMessages();
  world_->KillIfDiskStopped(process_number_);
}

void ToyServer::OnDamaged(uint32_t lane, Peer from) {
  if (!is_alive_ || asleep_since_.has_value()) return;
  protocol::Send answer =
      protocol::RefusalTo(from, Code::kMismatch, "damaged", pb::Refuse::reconnect);
  if (lane == 0) return SendFromControl(std::move(answer));
  Sends sends;
  sends.push_back(std::move(answer));
  SendToClients(std::move(sends));
}

void ToyServer::OnLaneMessage(uint32_t index, Peer from, const Message& message, Sends* out) {
  if (!lanes_.empty()) return lanes_[index]->OnMessage(from, message, out);
  if (message.head.has_hello())
    return round_lanes_[index]->OnHello(from, message.head.hello(), out);
  round_lanes_[index]->OnMessage(from, message, out);
}

void ToyServer::OnMessageFromShard0(const Message& message) {
  if (!is_alive_) return;
  if (asleep_since_.has_value()) {
    inbox_.push_back({0, 0, message});
    return;
  }
  ControlActions actions;
  control_->OnMessageFromShard0(message, Now(), &actions);
  PerformActions(std::move(actions));
}

void ToyServer::OnShard0Disconnected() {
  if (!is_alive_) return;
  lost_shard0_while_asleep_ = asleep_since_.has_value();
  if (!lost_shard0_while_asleep_) control_->OnShard0Disconnected();
}

void ToyServer::OnTick() {
  if (!is_alive_ || asleep_since_.has_value()) return;
  for (const Peer peer : std::exchange(unreachable_peers_, {}))
    control_->OnUnreachable(peer, Now());
  ControlActions actions;
  control_->OnTimer(Now(), &actions);
  for (const auto& lane : lanes_) {
    const Status failure = lane->lane().failure();
    if (!failure.ok()) control_->OnFailure(failure, Now(), &actions);
  }
  PerformActions(std::move(actions));
}

void ToyServer::OnStop() {
  if (!is_alive_) return;
  ControlActions actions;
  control_->OnStop(Code::kTerminated, Now(), &actions);
  PerformActions(std::move(actions));
}

void ToyServer::OnMembers(uint32_t lane) {
  if (!is_alive_) return;
  if (asleep_since_.has_value())
    return world_->Post(kMembersRetry, Event::Type::kServerMembers, process_number_, lane);
  const pb::Members members = std::move(members_[lane].front());
  members_[lane].pop_front();
  Sends sends;
  if (!lanes_.empty()) {
    lanes_[lane]->OnMembers(members, &sends);
  } else {
    BeginLane(lane, members);
    round_lanes_[lane]->OnMembers(members, &sends);
  }
  if (world_->KillIfDiskStopped(process_number_)) return;
  SendToClients(std::move(sends));
}

void ToyServer::BeginLane(uint32_t index, const pb::Members& members) {
  pb::Members& known = known_members_[index];
  const std::optional<uint64_t> round =
      protocol::RoundToGoBackTo(members, known.run(), known.beginning());
  known = members;
  if (round.has_value()) round_lanes_[index]->GoBack(*round);
}

void ToyServer::Kill() {
  is_alive_ = false;
  was_killed_ = true;
}

void ToyServer::Sleep() { asleep_since_ = world_->now(); }

protocol::Time ToyServer::Now() const { return world_->now() - slept_; }

void ToyServer::Wake() {
  if (!is_alive_) return;
  slept_ += world_->now() - *asleep_since_;
  asleep_since_.reset();
  for (const Arrived& arrived : std::exchange(inbox_, {})) {
    if (arrived.from == 0) {
      OnMessageFromShard0(arrived.message);
    } else {
      OnMessage(arrived.lane, arrived.from, arrived.message);
    }
  }
  if (std::exchange(lost_shard0_while_asleep_, false)) OnShard0Disconnected();
}

void ToyServer::SendToClients(Sends sends) {
  for (protocol::Send& send : sends) {
    world_->network().SendToClient(process_number_, send.to, std::move(send.message),
                                   world_->now());
  }
}

void ToyServer::SendFromControl(protocol::Send send) {
  if (!world_->network().SendToClient(process_number_, send.to, std::move(send.message),
                                      world_->now()))
    unreachable_peers_.push_back(send.to);
}

void ToyServer::StopLanes() {
  for (auto& lane : round_lanes_) lane->OnStop();
  Sends sends;
  for (auto& lane : lanes_) lane->Stop(&sends);
  SendToClients(std::move(sends));
}

void ToyServer::PerformActions(ControlActions actions) {
  for (ControlAction& action : actions) {
    switch (action.type) {
      case ControlAction::Type::kSend:
        SendFromControl(std::move(action.send));
        break;
      case ControlAction::Type::kConnectShard0:
        if (shard0_connection_ != kNobody) world_->network().CloseConnection(shard0_connection_);
        shard0_connection_ =
            world_->network().OpenConnection(false, process_number_, {0, 0}, 0, world_->now());
        break;
      case ControlAction::Type::kSendShard0:
        world_->network().SendToServer(shard0_connection_, std::move(action.send.message),
                                       world_->now());
        break;
      case ControlAction::Type::kMembers:
        for (uint32_t l = 0; l < members_.size(); ++l) {
          members_[l].push_back(action.members);
          world_->Post(world_->rng().Ms(0, 3), Event::Type::kServerMembers, process_number_, l);
        }
        break;
      case ControlAction::Type::kStop:
        StopLanes();
        break;
      case ControlAction::Type::kCheckpoint:
        for (auto& lane : round_lanes_) lane->OnCheckpointRequest();
        break;
      case ControlAction::Type::kEnded:
        is_alive_ = false;
        status_ = action.status;
        last_step_ = action.last_step;
        for (const auto& lane : lanes_) lane->Finish(last_step_);
        world_->network().BreakAllOfServer(process_number_, world_->now());
        world_->Trace([&] {
          return "shard " + std::to_string(shard_) +
                 " ended: " + std::to_string(ExitCode(status_)) + " " + status_.message();
        });
        break;
      case ControlAction::Type::kLog:
        world_->Trace([&] { return "shard " + std::to_string(shard_) + ": " + action.text; });
        break;
    }
  }
}

}  // namespace tern::sim
