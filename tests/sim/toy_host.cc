#include "tests/sim/toy_host.h"

#include <algorithm>

#include "tests/sim/world.h"

namespace tern::sim {

using protocol::Cell;
using protocol::HostLeader;
using protocol::Kind;
using protocol::LaneRef;
using protocol::Message;
using protocol::SessionActions;
using Leader = protocol::Exchange::Leader;

namespace {

constexpr Time kPatience = std::chrono::milliseconds(100);

HostLeader::Options LeaderOptions(World* world, uint32_t rank) {
  HostLeader::Options options;
  options.rank = rank;
  options.workers = world->schedule().workers;
  options.patience = kPatience;
  options.has_cell = [](const Cell& cell) {
    return cell.bucket < kNumBuckets && cell.chunk < kNumChunks;
  };
  options.open = [world](const Cell& cell, uint64_t round) {
    for (const protocol::CellSpec& spec :
         world->layout().RoundCells(world->layout().LaneOf(cell), world->report())) {
      if (spec.cell == cell) return spec.open(round);
    }
    return std::unique_ptr<protocol::CellSum>();
  };
  return options;
}

}  // namespace

uint32_t Hosts::LeaderOf(uint32_t host) const {
  const auto found = leaders_.find(host);
  return found != leaders_.end() && world_.IsWorkerAlive(found->second) ? found->second : kNobody;
}

void Hosts::Send(uint32_t from, uint32_t to, Message message) {
  Time& last_arrival = last_arrivals_[{from, to}];
  last_arrival = std::max(last_arrival, world_.now() + world_.rng().Ms(0, 8));
  messages_.emplace_back(from, std::move(message));
  world_.Post(last_arrival - world_.now(), Event::Type::kOnHost, to,
              static_cast<uint32_t>(messages_.size() - 1));
}

std::pair<uint32_t, Message> Hosts::Take(uint32_t index) { return std::move(messages_[index]); }

ToyHost::ToyHost(World* world, uint32_t process, uint32_t rank, protocol::Session* session)
    : world_(*world),
      process_(process),
      host_(rank / world->schedule().workers_a_host),
      rank_(rank),
      session_(*session),
      leader_(LeaderOptions(world, rank)) {}

void ToyHost::OnTick(Time now, SessionActions* out) {
  const uint32_t leader = world_.hosts().LeaderOf(host_);
  if (leader != leader_process_) session_.OnLeader(Leader::kNone, now, out);
  leader_process_ = leader;
  if (leader == kNobody) {
    world_.hosts().Lock(host_, leader_process_ = process_);
    world_.Trace([&] { return "worker " + std::to_string(rank_) + " leads its host"; });
  }
  session_.OnLeader(Leader::kPresent, now, out);
  HostLeader::Actions actions;
  leader_.OnTimer(now, &actions);
  Execute(std::move(actions), now, out);
}

void ToyHost::TellLeader(Message push, Time now, SessionActions* out) {
  if (!leads()) return world_.hosts().Send(process_, leader_process_, std::move(push));
  HostLeader::Actions actions;
  leader_.OnPush(push, now, &actions);
  Execute(std::move(actions), now, out);
}

void ToyHost::OnMessage(uint32_t from, const Message& message, Time now, SessionActions* out) {
  if (message.head.has_push() && leads()) {
    processes_[message.head.push().rank()] = from;
    HostLeader::Actions actions;
    leader_.OnPush(message, now, &actions);
    return Execute(std::move(actions), now, out);
  }
  if (message.head.has_refuse()) return session_.OnLeader(Leader::kRefuses, now, out);
  if (!message.head.has_sum()) return;
  const pb::Outcome& sum = message.head.sum();
  session_.OnMessage(world_.layout().LaneOf({Kind::kPush, sum.bucket(), sum.chunk()}), message, now,
                     out);
}

void ToyHost::OnServerMessage(const Message& message, Time now, SessionActions* out) {
  if (!leads() || !message.head.has_sum()) return;
  HostLeader::Actions actions;
  leader_.OnAnswer(message, &actions);
  Execute(std::move(actions), now, out);
}

void ToyHost::OnLaneLost(LaneRef lane, Time now, SessionActions* out) {
  if (!leads()) return;
  HostLeader::Actions actions;
  leader_.OnLaneLost([&](const Cell& cell) { return world_.layout().LaneOf(cell) == lane; },
                     &actions);
  Execute(std::move(actions), now, out);
}

void ToyHost::Execute(HostLeader::Actions actions, Time now, SessionActions* out) {
  for (HostLeader::Action& action : actions) {
    if (action.type == HostLeader::Action::Type::kSend) {
      const pb::Contribution& push = action.message.head.push();
      const LaneRef lane = world_.layout().LaneOf({Kind::kPush, push.bucket(), push.chunk()});
      world_.CountHostSum(static_cast<size_t>(push.in_round().of_size()));
      if (session_.exchange().IsUp(lane)) {
        out->push_back(protocol::MakeSend(lane, std::move(action.message)));
      } else {
        OnLaneLost(lane, now, out);
      }
      continue;
    }
    const bool is_answer = action.type == HostLeader::Action::Type::kForward;
    if (action.rank == rank_ && !is_answer) {
      session_.OnLeader(Leader::kRefuses, now, out);
    } else if (const auto process = processes_.find(action.rank); process != processes_.end()) {
      world_.hosts().Send(process_, process->second,
                          is_answer ? std::move(action.message)
                                    : protocol::MakeRefusal(Code::kOk, "", pb::Refuse::again));
    }
  }
}

}  // namespace tern::sim
