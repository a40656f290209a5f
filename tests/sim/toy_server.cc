#include "tests/sim/toy_server.h"

#include <utility>

#include "common/protocol/members/follower.h"
#include "tests/sim/world.h"

namespace tern::sim {

using protocol::ControlAction;
using protocol::ControlActions;
using protocol::LaneRef;
using protocol::Message;
using protocol::Peer;
using protocol::Sends;

ToyServer::ToyServer(World* world, uint32_t process, uint32_t shard, uint64_t incarnation)
    : world_(world), process_(process), shard_(shard) {
  const Schedule& schedule = world->schedule();
  const uint32_t data_lanes = schedule.data_lanes[shard];
  for (uint32_t l = 1; l <= data_lanes; ++l) ports_.push_back(process * 10 + l + 1000);
  protocol::ControlOptions options;
  options.shard = shard;
  options.shards = schedule.shards();
  options.workers = schedule.workers;
  options.incarnation = incarnation;
  options.data_ports = ports_;
  options.expected = world->Expected();
  options.timings = schedule.timings;
  options.elasticity = schedule.elasticity;
  options.window = schedule.lane_window();
  options.workers_hold_state = schedule.has_rounds();
  options.safeguards = world->safeguards();
  options.resumes = schedule.checkpoint_every != 0;
  if (schedule.central) {
    options.begins_from_shards = true;
    options.keeps.assign(schedule.shards(), true);
    options.saved = [world, shard] {
      return SavedOf(*world->central_disk(), world->layout(), world->schedule(), shard);
    };
  }
  for (uint32_t l = 1; l <= data_lanes; ++l) MakeLane(l, incarnation);
  members_.resize(data_lanes);
  beginnings_.resize(data_lanes);
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

void ToyServer::MakeLane(uint32_t l, uint64_t incarnation) {
  const Schedule& schedule = world_->schedule();
  const LaneRef name{shard_, l};
  if (!schedule.has_rounds()) {
    clock_lanes_.push_back(std::make_unique<ToyClockLane>(
        name, schedule, world_->layout(), incarnation, world_->safeguards(), &world_->clocks(),
        world_->report(), world_->disk()));
    return;
  }
  protocol::RoundLane::Options lane;
  lane.workers = schedule.workers;
  lane.window = schedule.lane_window();
  lane.quorum = schedule.elasticity.quorum;
  lane.shrink = schedule.shrinks();
  lane.incarnation = incarnation;
  lane.leads = shard_ == 0 && l == 1;
  if (shard_ == 0) lane.learning_rate = World::LearningRate;
  lane.safeguards = world_->safeguards();
  std::vector<protocol::CellSpec> cells;
  if (schedule.central) {
    central_lanes_.push_back(std::make_unique<ToyCentralLane>(
        name, schedule, world_->layout(), world_->report(), world_->central_disk()));
    cells = central_lanes_.back()->Cells();
  } else {
    cells = world_->layout().RoundCells(name, world_->report());
  }
  round_lanes_.push_back(std::make_unique<protocol::RoundLane>(std::move(lane), std::move(cells)));
}

protocol::Lane& ToyServer::data_lane(uint32_t index) {
  if (clock_lanes_.empty()) return *round_lanes_[index];
  return clock_lanes_[index]->lane();
}

std::vector<const protocol::RoundLane*> ToyServer::round_lanes() const {
  std::vector<const protocol::RoundLane*> lanes = {&control_->lane()};
  for (const auto& lane : round_lanes_) lanes.push_back(lane.get());
  return lanes;
}

void ToyServer::Start() {
  ControlActions actions;
  control_->Start(world_->now(), &actions);
  Act(std::move(actions));
}

bool ToyServer::Listens(LaneRef lane, uint32_t port) const {
  if (!alive_ || lane.shard != shard_) return false;
  return lane.lane == 0 ? port == 0 : lane.lane <= ports_.size() && port == ports_[lane.lane - 1];
}

void ToyServer::OnMessage(uint32_t lane, Peer from, const Message& message) {
  if (!alive_) return;
  if (lane == 0) {
    ControlActions actions;
    control_->OnMessage(from, message, world_->now(), &actions);
    return Act(std::move(actions));
  }
  Sends sends;
  if (message.head.has_hello()) {
    data_lane(lane - 1).OnHello(from, message.head.hello(), &sends);
  } else {
    data_lane(lane - 1).OnMessage(from, message, &sends);
  }
  if (!clock_lanes_.empty()) clock_lanes_[lane - 1]->SaveIfDue();
  Send(std::move(sends));
}

void ToyServer::OnMessageFromShard0(const Message& message) {
  if (!alive_) return;
  ControlActions actions;
  control_->OnMessageFromShard0(message, world_->now(), &actions);
  Act(std::move(actions));
}

void ToyServer::OnShard0Disconnected() {
  if (alive_) control_->OnShard0Disconnected();
}

void ToyServer::OnTick() {
  if (!alive_) return;
  ControlActions actions;
  control_->OnTimer(world_->now(), &actions);
  Act(std::move(actions));
}

void ToyServer::OnStop() {
  if (!alive_) return;
  ControlActions actions;
  control_->OnStop(Code::kTerminated, world_->now(), &actions);
  Act(std::move(actions));
}

void ToyServer::OnMembers(uint32_t lane) {
  if (!alive_) return;
  Sends sends;
  BeginLane(lane, members_[lane].front());
  data_lane(lane).OnMembers(members_[lane].front(), &sends);
  members_[lane].pop_front();
  Send(std::move(sends));
}

void ToyServer::BeginLane(uint32_t index, const pb::Members& members) {
  if (!clock_lanes_.empty()) clock_lanes_[index]->Load();
  if (clock_lanes_.empty() && central_lanes_.empty()) {
    if (!members.has_beginning() || members.beginning() == beginnings_[index]) return;
    beginnings_[index] = members.beginning();
    return round_lanes_[index]->GoBack(members.begin());
  }
  if (central_lanes_.empty() || !central_lanes_[index]->Begin(members)) return;
  world_->Begins(members.beginning(), members.begin());
  round_lanes_[index]->GoBack(members.begin());
}

void ToyServer::Kill() {
  alive_ = false;
  killed_ = true;
}

void ToyServer::Send(Sends sends) {
  for (protocol::Send& send : sends) {
    world_->network().ToClient(process_, send.to, std::move(send.message), world_->now());
  }
}

void ToyServer::Stop() {
  for (auto& lane : round_lanes_) lane->OnStop();
  Sends sends;
  for (auto& lane : clock_lanes_) lane->lane().Stop(&sends);
  Send(std::move(sends));
}

void ToyServer::Act(ControlActions actions) {
  for (ControlAction& action : actions) {
    switch (action.type) {
      case ControlAction::Type::kSend:
        world_->network().ToClient(process_, action.send.to, std::move(action.send.message),
                                   world_->now());
        break;
      case ControlAction::Type::kConnectShard0:
        if (to_shard0_ != kNobody) world_->network().Close(to_shard0_);
        to_shard0_ = world_->network().Open(false, process_, {0, 0}, 0, world_->now());
        break;
      case ControlAction::Type::kSendShard0:
        world_->network().ToServer(to_shard0_, std::move(action.send.message), world_->now());
        break;
      case ControlAction::Type::kMembers:
        for (uint32_t l = 0; l < members_.size(); ++l) {
          members_[l].push_back(action.members);
          world_->Post(world_->rng().Ms(0, 3), Event::Type::kServerMembers, process_, l);
        }
        break;
      case ControlAction::Type::kStop:
        Stop();
        break;
      case ControlAction::Type::kEnded:
        alive_ = false;
        status_ = action.status;
        world_->network().BreakAllOfServer(process_, world_->now());
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
