// Helpers of the protocol's tests: they make messages, and search what the state machines answer.
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
// A checkpoint after `step`, which is also the round.
inline pb::Checkpoint CheckpointAt(uint64_t step, uint64_t run) {
  pb::Checkpoint checkpoint;
  checkpoint.set_run(run);
  checkpoint.set_step(step);
  checkpoint.set_round(step);
  return checkpoint;
}
// Options of a shard with incarnation 7 and one data lane.
inline ControlOptions TestOptions(uint32_t shards, uint32_t workers, OnLoss on_loss) {
  ControlOptions options;
  options.shards = shards;
  options.workers = workers;
  options.incarnation = 7;
  options.data_ports = {4000};
  options.expected = TestHello(0, 0);
  options.timings = TestTimings();
  options.elasticity.on_loss = on_loss;
  return options;
}

// The hello of a worker that has state.
inline pb::Hello Veteran(uint32_t rank, uint64_t incarnation, uint64_t applied, uint64_t epoch) {
  pb::Hello hello = TestHello(rank, incarnation);
  hello.set_fresh(false);
  hello.set_applied(applied);
  hello.set_epoch(epoch);
  return hello;
}

inline Message Say(const pb::Hello& hello) {
  Message message;
  *message.head.mutable_hello() = hello;
  return message;
}

inline Message Beat(uint32_t rank, uint64_t incarnation, uint64_t applied, uint64_t progress = 0,
                    bool waiting = true) {
  Message message;
  pb::Heartbeat* beat = message.head.mutable_heartbeat();
  beat->set_rank(rank);
  beat->set_incarnation(incarnation);
  beat->set_applied(applied);
  beat->set_progress(progress);
  beat->set_waiting(waiting);
  return message;
}

inline Message Bye(uint32_t rank, uint64_t incarnation, Code code = Code::kOk,
                   const std::string& sentence = "") {
  Message message;
  message.head.mutable_bye()->set_rank(rank);
  message.head.mutable_bye()->set_incarnation(incarnation);
  message.head.mutable_bye()->set_code(static_cast<uint32_t>(code));
  message.head.mutable_bye()->set_sentence(sentence);
  message.head.mutable_bye()->set_steps(100);
  return message;
}

inline Message EndMessage(Code code = Code::kOk, const std::string& sentence = "") {
  Message message;
  message.head.mutable_end()->set_code(static_cast<uint32_t>(code));
  message.head.mutable_end()->set_sentence(sentence);
  return message;
}

struct Part {
  Cell cell{Kind::kPush, 0, 0};
  uint64_t round = 1;
  uint32_t rank = 0;
  uint64_t incarnation = 0;
  uint64_t applied = 0;
  uint64_t digest = 0;
  std::string payload = "x";
  uint64_t epoch = 1;
};
inline Message ContributionOf(const Part& part) {
  Message message;
  pb::Contribution* c = MutableContribution(part.cell.kind, &message.head);
  c->set_bucket(part.cell.bucket);
  c->set_chunk(part.cell.chunk);
  c->set_rank(part.rank);
  c->set_incarnation(part.incarnation);
  c->set_epoch(part.epoch);
  c->mutable_in_round()->set_round(part.round);
  c->mutable_in_round()->set_applied(part.applied);
  c->mutable_in_round()->set_digest(part.digest);
  message.payload = Text(part.payload);
  return message;
}

inline pb::Members MembersOf(uint64_t epoch, const std::vector<uint64_t>& incarnations) {
  pb::Members members;
  members.set_epoch(epoch);
  for (uint64_t incarnation : incarnations) members.add_incarnations(incarnation);
  return members;
}

// Machines whose safeguards are off are not checked.
class Unchecked {
 public:
  ~Unchecked() { SetOnBroken(before_); }

 private:
  OnBroken before_ = SetOnBroken(nullptr);
};

// Returns the broken invariant that a machine finds during `act`.
template <typename Act>
std::string Refused(const Act& act) {
  static std::string told;
  told.clear();
  const OnBroken before = SetOnBroken([](const Status& broken) { told = broken.message(); });
  act();
  SetOnBroken(before);
  return told;
}

// A cell (what one sum is made of) whose contributions are "x"; the outcome has one "x" per
// contributor.
class Letters : public CellSum {
 public:
  Status Add(uint32_t, const Bytes& payload) override {
    if (View(payload) != "x") return Status(Code::kMismatch, "not an x");
    sum_ += "x";
    return Ok();
  }
  Bytes Close() override { return Text(sum_); }

 private:
  std::string sum_;
};
inline CellSpec LettersCell(const Cell& cell) {
  return {cell, [](uint64_t) { return std::make_unique<Letters>(); },
          [](const Bytes& payload, uint32_t contributors) {
            return View(payload) == std::string(contributors, 'x')
                       ? Ok()
                       : Status(Code::kMismatch, "not an x of each");
          }};
}

// The messages to one peer.
inline std::vector<Message> To(Peer peer, const Sends& sends) {
  std::vector<Message> messages;
  for (const Send& send : sends) {
    if (send.to == peer) messages.push_back(send.message);
  }
  return messages;
}
inline Sends SendsOf(const ControlActions& actions) {
  Sends sends;
  for (const ControlAction& action : actions) {
    if (action.type == ControlAction::Type::kSend) sends.push_back(action.send);
  }
  return sends;
}
// The first message to `peer` with that body, or an empty one.
inline Message First(Peer peer, pb::Envelope::BodyCase body, const Sends& sends) {
  for (const Send& send : sends) {
    if (send.to == peer && send.message.head.body_case() == body) return send.message;
  }
  return {};
}
template <typename Actions, typename Type>
int Count(const Actions& actions, Type type) {
  return static_cast<int>(std::count_if(
      actions.begin(), actions.end(), [type](const auto& action) { return action.type == type; }));
}

}  // namespace tern::protocol::test
