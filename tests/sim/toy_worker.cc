#include "tests/sim/toy_worker.h"

#include "tests/sim/world.h"

namespace tern::sim {

using protocol::Cell;
using protocol::Kind;
using protocol::LaneRef;
using protocol::Message;
using protocol::SessionAction;
using protocol::SessionActions;

ToyWorker::ToyWorker(World* world, uint32_t process, uint32_t rank, uint64_t incarnation)
    : world_(world), process_(process), rank_(rank), incarnation_(incarnation) {
  const Schedule& schedule = world->schedule();
  protocol::Session::Options options;
  options.rank = rank;
  options.incarnation = incarnation;
  options.data_lanes = schedule.data_lanes;
  options.servers.assign(schedule.shards(), "toy");
  options.hello = world->Expected();
  options.credit_bytes = 16;  // two pushes: the rest waits for its turn
  options.max_state_bytes = sizeof(State);
  options.piece_bytes = 20;
  options.timings = schedule.timings;
  session_ = std::make_unique<protocol::Session>(std::move(options));
  for (uint32_t lanes : schedule.data_lanes) connections_.emplace_back(lanes + 1, kNobody);
  state_ = world->FaultFreeState(0);
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

void ToyWorker::OnTask(Task task) {
  if (!alive_) return;
  if (frozen_) {
    tasks_.push_back(task);
    return;
  }
  SessionActions actions;
  switch (task) {
    case Task::kStep:
      return Step();
    case Task::kSnapshot:
      session_->OnSnapshot(EncodeState(state_), applied_, world_->now(), &actions);
      break;
    case Task::kInstalled:
      session_->OnInstalled(world_->now(), &actions);
      break;
    case Task::kFinish:
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
  for (Task task : std::exchange(tasks_, {})) OnTask(task);
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
      state_ = DecodeState(action.state);
      applied_ = action.applied;
      if (state_ != world_->FaultFreeState(applied_)) {
        world_->Violation("worker " + std::to_string(rank_) + " was given a wrong state");
      }
      return Later(Task::kInstalled, world_->rng().Ms(0, 150));
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

void ToyWorker::OnReady(uint64_t applied, uint64_t stop_after) {
  if (ready_) world_->Violation("worker " + std::to_string(rank_) + " was made ready twice");
  if (applied != applied_)
    world_->Violation("worker " + std::to_string(rank_) + " was made ready at another round");
  ready_ = true;
  stop_after_ = stop_after;
  GoOn();
}

void ToyWorker::GoOn() {
  if (applied_ == world_->schedule().rounds || (stop_after_ != 0 && applied_ >= stop_after_)) {
    finishing_ = true;
    // The last evaluation, on the final weights.
    round_ = applied_ + 1;
    wanted_ = 1;
    answers_ = 0;
    return Contribute({Kind::kFigures, 0, 0}, round_, 0, DigestOfState(state_));
  }
  Later(Task::kStep, world_->rng().Ms(1, world_->rng().Chance(0.1) ? 100 : 15));
}

void ToyWorker::Step() {
  round_ = applied_ + 1;
  answers_ = 0;
  wanted_ = kBuckets * kChunks + (HasFigures(round_) ? 1 : 0);
  world_->Reached(rank_, Fault::Point::kStart, round_);
  if (HasFigures(round_)) Contribute({Kind::kFigures, 0, 0}, round_, 0, DigestOfState(state_));
  for (uint32_t b = 0; b < kBuckets; ++b) {
    Contribute({Kind::kScale, b, 0}, round_, 0, ScaleOf(rank_, round_, b, state_));
  }
}

void ToyWorker::Contribute(const Cell& cell, uint64_t round, uint64_t digest, uint64_t word) {
  SessionActions actions;
  session_->SetProgress(++progress_, false, {});
  session_->Contribute(cell, round, world_->layout().LaneOf(cell), digest, EncodeWord(word),
                       world_->now(), &actions);
  Act(std::move(actions));
}

void ToyWorker::OnAnswer(const protocol::Exchange::Delivery& answer) {
  const pb::Outcome& outcome = answer.outcome;
  if (outcome.round() != round_) {
    world_->Violation("worker " + std::to_string(rank_) + " was given an answer of another round");
  }
  if (outcome.stop_after() != 0) stop_after_ = outcome.stop_after();
  if (answer.cell.kind == Kind::kScale) return OnScaled(answer.cell.bucket, answer.payload);
  ++answers_;
  if (answer.cell.kind == Kind::kPush) {
    const uint32_t index = answer.cell.bucket * kChunks + answer.cell.chunk;
    sums_[index] = DecodeWord(answer.payload);
    const bool told = world_->layout().LaneOf(answer.cell).shard == 0;
    if (told && outcome.learning_rate() != World::LearningRate(round_)) {
      world_->Violation("a wrong learning rate");
    }
  } else {
    std::string expected;
    for (uint32_t r = 0; r < world_->schedule().workers; ++r) {
      expected.append(EncodeWord(DigestOfState(world_->FaultFreeState(round_ - 1))).view());
    }
    if (answer.payload.view() != expected) world_->Violation("wrong figures");
  }
  ApplyIfComplete();
}

void ToyWorker::OnScaled(uint32_t bucket, const Bytes& payload) {
  const uint64_t scaled = DecodeWord(payload);
  world_->Reached(rank_, Fault::Point::kPush, round_);
  for (uint32_t c = 0; c < kChunks && alive_; ++c) {
    Contribute({Kind::kPush, bucket, c}, round_, Mix(scaled) | 1,
               PushOf(rank_, round_, bucket, c, state_, scaled));
  }
}

void ToyWorker::ApplyIfComplete() {
  if (answers_ != wanted_) return;
  if (finishing_) return Later(Task::kFinish, world_->rng().Ms(0, 20));
  Apply(sums_, &state_);
  applied_ = round_;
  if (state_ != world_->FaultFreeState(applied_)) {
    world_->Violation("worker " + std::to_string(rank_) + " has a wrong state after round " +
                      std::to_string(applied_));
  }
  session_->SetApplied(applied_);
  world_->Reached(rank_, Fault::Point::kApplied, applied_);
  GoOn();
}

void ToyWorker::Later(Task task, Time after) {
  world_->Post(after, Event::Type::kWorkerTask, process_, static_cast<uint32_t>(task));
}

}  // namespace tern::sim
