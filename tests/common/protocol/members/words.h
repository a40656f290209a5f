// Helpers of the protocol's tests: they make messages, and search the messages and actions with
// which the state machines answer. In these messages:
//   peer         a connection
//   incarnation  a number that identifies one process of a rank
//   epoch        the number of a membership: which incarnations take part in the job
//   applied      the newest round whose result a worker has applied to its weights
//   floor        the newest round that every member is known to have applied
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/invariants.h"
#include "common/protocol/members/control.h"
#include "common/protocol/rounds/message.h"
#include "common/protocol/rounds/round_lane.h"

namespace tern::protocol::test {

using std::chrono::milliseconds;

// Bytes with these characters, and the characters of bytes.
inline Bytes Text(std::string text) { return Bytes::Own(std::move(text)); }
inline std::string View(const Bytes& bytes) { return std::string(bytes.view()); }

inline Timings TestTimings() {
  Timings timings;
  timings.heartbeat = milliseconds(250);
  timings.suspect_after = milliseconds(1500);
  timings.dead_after = milliseconds(3000);
  timings.start_timeout = milliseconds(60'000);
  timings.wait_timeout = milliseconds(20'000);
  timings.server_return_timeout = milliseconds(30'000);
  timings.hello_retry = milliseconds(100);
  timings.resend_after = milliseconds(300);
  timings.progress_timeout = milliseconds(10'000);
  return timings;
}

// The first hello of a worker that has no state.
inline pb::Hello TestHello(uint32_t rank, uint64_t incarnation) {
  pb::Hello hello;
  hello.set_job("test");
  hello.set_job_digest(1);
  hello.set_model_digest(2);
  hello.set_plan_digest(3);
  hello.set_rank(rank);
  hello.set_incarnation(incarnation);
  hello.set_fresh(true);
  hello.set_steps(100);
  hello.set_host("node" + std::to_string(rank));
  return hello;
}
// A checkpoint of run `run` after step `step`, where each step is a round.
inline pb::Checkpoint CheckpointAt(uint64_t step, uint64_t run) {
  pb::Checkpoint checkpoint;
  checkpoint.set_run(run);
  checkpoint.set_step(step);
  checkpoint.set_round(step);
  return checkpoint;
}
// The checkpoints that one daemon offers.
using Checkpoints = std::vector<pb::Checkpoint>;
// A checkpoint after `step`, where each round takes two steps.
inline pb::Checkpoint CheckpointAfter(uint64_t step, uint64_t run = 3) {
  pb::Checkpoint checkpoint = CheckpointAt(step, run);
  checkpoint.set_round(step / 2);
  return checkpoint;
}
inline Checkpoints CheckpointsAfter(const std::vector<uint64_t>& steps, uint64_t run = 3) {
  Checkpoints checkpoints;
  for (const uint64_t step : steps) checkpoints.push_back(CheckpointAfter(step, run));
  return checkpoints;
}
// A hello with these checkpoints; `began`: the run whose beginning the disk records, 0 if none.
inline pb::Hello HelloWith(const Checkpoints& checkpoints, uint64_t began = 0) {
  pb::Hello hello;
  for (const pb::Checkpoint& checkpoint : checkpoints) *hello.add_checkpoints() = checkpoint;
  hello.set_began(began);
  return hello;
}
// A hello of a daemon whose checkpoints are unusable. `sentence` says why.
inline pb::Hello HelloWithUnfit(bool other_job, const std::string& sentence) {
  pb::Hello hello;
  hello.mutable_unfit()->set_other_job(other_job);
  hello.mutable_unfit()->set_sentence(sentence);
  return hello;
}
// Options of a shard with incarnation 7 and one data lane (socket).
inline ControlOptions TestOptions(uint32_t shards, uint32_t workers, OnLoss on_loss) {
  ControlOptions options;
  options.shards = shards;
  options.workers = workers;
  options.incarnation = 7;
  options.data_ports = {4000};
  options.expected_hello = TestHello(0, 0);
  options.timings = TestTimings();
  options.elasticity.on_loss = on_loss;
  return options;
}

// The hello of a worker that has state.
inline pb::Hello HelloWithState(uint32_t rank, uint64_t incarnation, uint64_t applied,
                                uint64_t epoch) {
  pb::Hello hello = TestHello(rank, incarnation);
  hello.set_fresh(false);
  hello.set_applied(applied);
  hello.set_epoch(epoch);
  return hello;
}

inline Message HelloMessage(const pb::Hello& hello) {
  Message message;
  *message.head.mutable_hello() = hello;
  return message;
}

inline Message HeartbeatMessage(uint32_t rank, uint64_t incarnation, uint64_t applied,
                                uint64_t progress = 0, bool waiting = true) {
  Message message;
  pb::Heartbeat* heartbeat = message.head.mutable_heartbeat();
  heartbeat->set_rank(rank);
  heartbeat->set_incarnation(incarnation);
  heartbeat->set_applied(applied);
  heartbeat->set_progress(progress);
  heartbeat->set_waiting(waiting);
  return message;
}

inline Message ByeMessage(uint32_t rank, uint64_t incarnation, Code code = Code::kOk,
                          const std::string& sentence = "") {
  Message message;
  message.head.mutable_bye()->set_rank(rank);
  message.head.mutable_bye()->set_incarnation(incarnation);
  message.head.mutable_bye()->set_code(static_cast<uint32_t>(code));
  message.head.mutable_bye()->set_sentence(sentence);
  message.head.mutable_bye()->set_steps(100);
  return message;
}

// The Bye of a worker that was stopped before the job's last step.
inline Message StoppedByeMessage(uint32_t rank, uint64_t incarnation) {
  Message message = ByeMessage(rank, incarnation);
  message.head.mutable_bye()->set_steps(40);
  return message;
}

inline Message EndMessage(Code code = Code::kOk, const std::string& sentence = "") {
  Message message;
  message.head.mutable_end()->set_code(static_cast<uint32_t>(code));
  message.head.mutable_end()->set_sentence(sentence);
  return message;
}

// The fields of a contribution: what a worker sends in one round for one cell, that is, one thing
// that is added up over the workers.
struct TestContribution {
  Cell cell{Kind::kPush, 0, 0};
  uint64_t round = 1;
  uint32_t rank = 0;
  uint64_t incarnation = 0;
  uint64_t applied = 0;
  uint64_t digest = 0;  // of the scalers that the payload is coded with
  std::string payload = "x";
  uint64_t epoch = 1;
};
inline Message ContributionOf(const TestContribution& contribution) {
  Message message;
  pb::Contribution* fields = MutableContribution(contribution.cell.kind, &message.head);
  fields->set_bucket(contribution.cell.bucket);
  fields->set_chunk(contribution.cell.chunk);
  fields->set_rank(contribution.rank);
  fields->set_incarnation(contribution.incarnation);
  fields->set_epoch(contribution.epoch);
  fields->mutable_in_round()->set_round(contribution.round);
  fields->mutable_in_round()->set_applied(contribution.applied);
  fields->mutable_in_round()->set_digest(contribution.digest);
  message.payload = Text(contribution.payload);
  return message;
}

inline pb::Members MembersOf(uint64_t epoch, const std::vector<uint64_t>& incarnations) {
  pb::Members members;
  members.set_epoch(epoch);
  for (uint64_t incarnation : incarnations) members.add_incarnations(incarnation);
  return members;
}

// While an object of this class exists, no state machine checks its invariants. For tests that
// switch off a safeguard of the protocol.
class ScopedNoChecks {
 public:
  ~ScopedNoChecks() { SetInvariantHandler(previous_handler_); }

 private:
  InvariantHandler previous_handler_ = SetInvariantHandler(nullptr);
};

// Calls `act`, and returns the message of the broken invariant that a state machine reports
// meanwhile; empty if none reports one.
template <typename Act>
std::string InvariantBrokenBy(const Act& act) {
  static std::string broken_invariant;
  broken_invariant.clear();
  const InvariantHandler previous_handler =
      SetInvariantHandler([](const Status& broken) { broken_invariant = broken.message(); });
  act();
  SetInvariantHandler(previous_handler);
  return broken_invariant;
}

// The sum of a cell for tests: each contribution is "x", and the sum has one "x" per contributor.
class LetterSum : public CellSum {
 public:
  Status Add(uint32_t, const Bytes& payload) override {
    if (View(payload) != "x") return Status(Code::kMismatch, "not an x");
    sum_ += "x";
    return Ok();
  }
  Status AddPartial(const std::vector<uint32_t>& ranks, const Bytes& payload) override {
    if (View(payload) != std::string(ranks.size(), 'x'))
      return Status(Code::kMismatch, "not an x of each");
    sum_ += View(payload);
    return Ok();
  }
  Bytes Close() override { return Text(sum_); }

 private:
  std::string sum_;
};
inline CellSpec LetterCell(const Cell& cell) {
  return {cell, [](uint64_t) { return std::make_unique<LetterSum>(); },
          [](const Bytes& payload, uint32_t contributors) {
            return View(payload) == std::string(contributors, 'x')
                       ? Ok()
                       : Status(Code::kMismatch, "not an x of each");
          }};
}

// The messages that are sent to `peer`.
inline std::vector<Message> MessagesTo(Peer peer, const Sends& sends) {
  std::vector<Message> messages;
  for (const Send& send : sends) {
    if (send.to == peer) messages.push_back(send.message);
  }
  return messages;
}
// The messages that these actions send.
inline Sends SendsOf(const ControlActions& actions) {
  Sends sends;
  for (const ControlAction& action : actions) {
    if (action.type == ControlAction::Type::kSend) sends.push_back(action.send);
  }
  return sends;
}
// The first message to `peer` with that body, or an empty one.
inline Message FirstMessageTo(Peer peer, pb::Envelope::BodyCase body, const Sends& sends) {
  for (const Send& send : sends) {
    if (send.to == peer && send.message.head.body_case() == body) return send.message;
  }
  return {};
}
// The number of actions of this type.
template <typename Actions, typename Type>
int Count(const Actions& actions, Type type) {
  return static_cast<int>(std::count_if(
      actions.begin(), actions.end(), [type](const auto& action) { return action.type == type; }));
}

}  // namespace tern::protocol::test
