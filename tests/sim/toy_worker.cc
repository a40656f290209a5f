#include "tests/sim/toy_worker.h"

#include <algorithm>

#include "tests/sim/world.h"

namespace tern::sim {

using protocol::Cell;
using protocol::Kind;
using protocol::LaneRef;
using protocol::Message;
using protocol::SessionAction;
using protocol::SessionActions;

namespace {

constexpr Cell kFigures{Kind::kFigures, 0, 0};
constexpr uint32_t kTasks = 4;

}  // namespace

ToyWorker::ToyWorker(World* world, uint32_t process, uint32_t rank, uint64_t incarnation)
    : world_(world), process_(process), rank_(rank) {
  const Schedule& schedule = world->schedule();
  protocol::Session::Options options;
  options.rank = rank;
  options.incarnation = incarnation;
  options.data_lanes = schedule.data_lanes;
  options.servers.assign(schedule.shards(), "toy");
  options.hello = world->Expected();
  options.credit_bytes = 16;  // two pushes: the rest waits for its turn
  options.max_state_bytes = sizeof(Replica);
  options.piece_bytes = 40;
  options.timings = schedule.timings;
  options.unsolicited = schedule.elasticity.unsolicited();
  options.shrink = schedule.shrinks();
  options.in_plan = [world](const Cell& cell, LaneRef lane) {
    return world->layout().LaneOf(cell) == lane;
  };
  session_ = std::make_unique<protocol::Session>(std::move(options));
  for (uint32_t lanes : schedule.data_lanes) connections_.emplace_back(lanes + 1, kNobody);
  replica_.now = replica_.before = world->FaultFreeState(0);
}

void ToyWorker::Start() {
  SessionActions actions;
  session_->Start(world_->now(), &actions);
  Act(std::move(actions));
}

void ToyWorker::OnMessage(LaneRef lane, const Message& message) {
  if (!alive_) return;
  if (frozen_) {
    inbox_.emplace_back(lane, message);
    return;
  }
  SessionActions actions;
  session_->OnMessage(lane, message, world_->now(), &actions);
  Act(std::move(actions));
}

void ToyWorker::OnDisconnected(LaneRef lane) {
  if (!alive_) return;
  if (frozen_) {
    broken_.push_back(lane);
    return;
  }
  SessionActions actions;
  session_->OnDisconnected(lane, world_->now(), &actions);
  Act(std::move(actions));
}

void ToyWorker::OnTick() {
  if (!alive_ || frozen_) return;
  SessionActions actions;
  session_->OnTimer(world_->now(), &actions);
  Act(std::move(actions));
}

void ToyWorker::OnTask(uint32_t posted) {
  if (!alive_) return;
  if (frozen_) {
    tasks_.push_back(posted);
    return;
  }
  const auto task = static_cast<Task>(posted % kTasks);
  const bool current = posted / kTasks == generation_;
  SessionActions actions;
  switch (task) {
    case Task::kStep:
      if (current) Step();
      return;
    case Task::kSnapshot:
      session_->OnSnapshot(EncodeReplica(replica_), applied_, world_->now(), &actions);
      break;
    case Task::kInstalled:
      if (current) session_->OnInstalled(world_->now(), &actions);
      break;
    case Task::kFinish:
      if (!current) return;
      world_->Reached(rank_, Fault::Point::kLeaving, applied_);
      leaving_ = true;
      session_->Finish(Ok(), {}, {}, world_->now(), &actions);
      break;
  }
  Act(std::move(actions));
}

void ToyWorker::Kill(bool hold) {
  alive_ = false;
  killed_ = true;
  held_ = hold;
  session_.reset();
}

void ToyWorker::Thaw() {
  if (!alive_ || !frozen_) return;
  frozen_ = false;
  // A process that was stopped finds its timers due before it reads a word.
  OnTick();
  for (LaneRef lane : std::exchange(broken_, {})) OnDisconnected(lane);
  for (auto& [lane, message] : std::exchange(inbox_, {})) OnMessage(lane, message);
  for (uint32_t task : std::exchange(tasks_, {})) OnTask(task);
}

void ToyWorker::Act(SessionActions actions) {
  for (SessionAction& action : actions) {
    if (!alive_) return;
    Do(action);
  }
}

void ToyWorker::Do(SessionAction& action) {
  switch (action.type) {
    case SessionAction::Type::kConnect: {
      admitted_ |= action.lane.lane != 0;  // data lanes follow shard 0's Welcome
      uint32_t& connection = connections_[action.lane.shard][action.lane.lane];
      if (connection != kNobody) world_->network().Close(connection);
      connection = world_->network().Open(true, process_, action.lane, action.port, world_->now());
      return;
    }
    case SessionAction::Type::kSend:
      return world_->network().ToServer(connections_[action.lane.shard][action.lane.lane],
                                        std::move(action.message), world_->now());
    case SessionAction::Type::kReady:
      return OnReady(action.applied, action.stop_after);
    case SessionAction::Type::kDeliver:
      return OnAnswer(action.delivery);
    case SessionAction::Type::kSnapshot:
      return Later(Task::kSnapshot, world_->rng().Ms(0, 10));
    case SessionAction::Type::kInstall:
      return OnInstall(action);
    case SessionAction::Type::kEnded:
      alive_ = false;
      status_ = action.status;
      world_->network().CloseAllOf(true, process_);
      world_->OnWorkerEnded(*this);
      world_->Trace([&] {
        return "worker " + std::to_string(rank_) + " ended: " + std::to_string(ExitCode(status_)) +
               " " + status_.message();
      });
      return;
    case SessionAction::Type::kLog:
      return world_->Trace([&] { return "worker " + std::to_string(rank_) + ": " + action.text; });
  }
}

void ToyWorker::OnInstall(const SessionAction& action) {
  ++generation_;
  replica_ = DecodeReplica(action.state);
  applied_ = stepped_ = action.applied;
  rounds_.clear();
  finishing_ = computing_ = false;
  if (!world_->IsState(applied_, replica_.now)) Violation("was given a wrong state");
  Later(Task::kInstalled, world_->rng().Ms(0, 150));
}

void ToyWorker::OnReady(uint64_t applied, uint64_t stop_after) {
  if (ready_ && !world_->schedule().shrinks()) Violation("was made ready twice");
  if (applied != applied_) Violation("was made ready at another round");
  ready_ = true;
  stop_after_ = stop_after;
  if (HasFigures(applied_ + 1) && applied_ < last())
    Contribute(kFigures, applied_ + 1, 0, DigestOfState(replica_.now));
  GoOn();
}

uint64_t ToyWorker::last() const {
  const uint64_t rounds = world_->schedule().rounds;
  return stop_after_ == 0 ? rounds : std::min(rounds, stop_after_);
}

void ToyWorker::GoOn() {
  while (alive_ && !computing_ && ApplyOne()) {
  }
  if (!alive_ || finishing_ || computing_) return;
  if (applied_ >= last()) {
    finishing_ = true;
    // The last evaluation, on the final weights.
    Contribute(kFigures, applied_ + 1, 0, DigestOfState(replica_.now));
    return FinishIfDone();
  }
  stepped_ = std::max(stepped_, applied_);
  if (stepped_ >= applied_ + world_->schedule().window || stepped_ >= last()) return;
  computing_ = true;
  Later(Task::kStep, world_->rng().Ms(1, world_->rng().Chance(0.1) ? 100 : 15));
}

void ToyWorker::Step() {
  computing_ = false;
  const uint64_t round = ++stepped_;
  world_->Reached(rank_, Fault::Point::kStart, round);
  for (uint32_t b = 0; b < kBuckets && alive_; ++b) {
    Contribute({Kind::kScale, b, 0}, round, 0, ScaleOf(rank_, round, b, PointOf(round)));
    if (rounds_[round].has_scaled[b]) PushBucket(round, b);  // it had closed without this worker
  }
  GoOn();
}

const State& ToyWorker::PointOf(uint64_t round) const {
  return round > applied_ + 1 || world_->schedule().window == 1 || applied_ == 0 ? replica_.now
                                                                              : replica_.before;
}

void ToyWorker::PushBucket(uint64_t round, uint32_t bucket) {
  const uint64_t scaled = rounds_[round].scaled[bucket];
  world_->Reached(rank_, Fault::Point::kPush, round);
  for (uint32_t c = 0; c < kChunks && alive_; ++c) {
    Contribute({Kind::kPush, bucket, c}, round, Mix(scaled) | 1,
               PushOf(rank_, round, bucket, c, PointOf(round), scaled));
  }
}

void ToyWorker::Contribute(const Cell& cell, uint64_t round, uint64_t digest, uint64_t word) {
  protocol::Request request;
  request.skip = cell.kind != Kind::kFigures && world_->schedule().skips && Skips(rank_, round);
  if (!request.skip) world_->ledger().Contributed(cell, round, rank_, word);
  SessionActions actions;
  session_->SetProgress(++progress_, false, {});
  session_->Contribute(cell, round, world_->layout().LaneOf(cell), request.skip ? 0 : digest,
                       request.skip ? Bytes() : EncodeWord(word), world_->now(), &actions, request);
  Act(std::move(actions));
}

void ToyWorker::OnAnswer(const protocol::Exchange::Delivery& answer) {
  const pb::Outcome& outcome = answer.outcome;
  CheckAnswer(answer);
  if (outcome.stop_after() != 0) stop_after_ = outcome.stop_after();
  Round& round = rounds_[outcome.round()];
  switch (answer.cell.kind) {
    case Kind::kScale:
      if (std::exchange(round.has_scaled[answer.cell.bucket], true)) Violation("was told twice");
      round.scaled[answer.cell.bucket] = DecodeWord(answer.payload);
      if (stepped_ >= outcome.round()) PushBucket(outcome.round(), answer.cell.bucket);
      break;
    case Kind::kPush:
      round.sums[answer.cell.bucket * kChunks + answer.cell.chunk] = DecodeWord(answer.payload);
      ++round.answers;
      break;
    case Kind::kFigures:
      round.figures = answer.payload;
      if (finishing_) return FinishIfDone();
      ++round.answers;
      break;
  }
  if (alive_) GoOn();
}

void ToyWorker::CheckAnswer(const protocol::Exchange::Delivery& answer) {
  const pb::Outcome& outcome = answer.outcome;
  const uint64_t round = outcome.round();
  if (round <= applied_) Violation("was given an answer of round " + std::to_string(round));
  const std::string wrong = world_->ledger().Check(answer);
  if (!wrong.empty()) Violation("was given " + ToString(answer.cell, round) + ": " + wrong);
  const bool told = world_->layout().LaneOf(answer.cell).shard == 0;
  if (answer.cell.kind == Kind::kPush && told &&
      outcome.learning_rate() != World::LearningRate(round)) {
    Violation("was told a wrong learning rate");
  }
  if (!world_->schedule().exact()) return;
  uint32_t expected = 0;
  for (uint32_t rank = 0; rank < world_->schedule().workers; ++rank) {
    const bool skips = answer.cell.kind != Kind::kFigures && world_->schedule().skips;
    expected += !skips || !Skips(rank, round);
  }
  if (outcome.contributors() != expected) Violation("was given a sum over others than all");
}

// One more round, if all its answers are in.
bool ToyWorker::ApplyOne() {
  const auto found = rounds_.find(applied_ + 1);
  if (found == rounds_.end() || finishing_) return false;
  const bool figures = HasFigures(applied_ + 1);
  if (found->second.answers != kBuckets * kChunks + (figures ? 1 : 0)) return false;
  if (figures) CheckFigures(found->second.figures);
  replica_.before = replica_.now;
  Apply(found->second.sums, &replica_.now);
  rounds_.erase(found);
  ++applied_;
  if (!world_->IsState(applied_, replica_.now))
    Violation("has a wrong state after round " + std::to_string(applied_));
  session_->SetApplied(applied_);
  world_->Reached(rank_, Fault::Point::kApplied, applied_);
  if (HasFigures(applied_ + 1) && applied_ < last())
    Contribute(kFigures, applied_ + 1, 0, DigestOfState(replica_.now));
  return true;
}

void ToyWorker::CheckFigures(const Bytes& figures) {
  const std::string mine(EncodeWord(DigestOfState(replica_.now)).view());
  std::string expected;
  while (expected.size() < figures.size()) expected += mine;
  if (figures.empty() || figures.view() != expected) Violation("finds that the replicas differ");
}

void ToyWorker::FinishIfDone() {
  const auto found = rounds_.find(applied_ + 1);
  if (found == rounds_.end() || found->second.figures.empty()) return;
  CheckFigures(found->second.figures);
  rounds_.clear();
  Later(Task::kFinish, world_->rng().Ms(0, 20));
}

void ToyWorker::Later(Task task, Time after) {
  world_->Post(after, Event::Type::kWorkerTask, process_,
               generation_ * kTasks + static_cast<uint32_t>(task));
}

void ToyWorker::Violation(const std::string& what) {
  world_->Violation("worker " + std::to_string(rank_) + " " + what);
}

}  // namespace tern::sim
