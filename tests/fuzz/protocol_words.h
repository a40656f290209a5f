// What the players of the protocol's state machines share (protocol_fuzz.cc): the job, messages of
// its members, and checks of what the machines emit.
#pragma once

#include <memory>
#include <string>

#include "common/protocol/members/control.h"
#include "common/protocol/rounds/cell_sum.h"
#include "tests/fuzz/protocol_input.h"

namespace tern::fuzz {

using namespace protocol;
using std::chrono::milliseconds;

inline constexpr Peer kStranger = 666;
inline constexpr uint32_t kWorkers = 2;
inline constexpr uint64_t kSteps = 20;
inline constexpr int kMaxEvents = 3000;
inline constexpr Cell kPushes{Kind::kPush, 0, 0}, kScalers{Kind::kScale, 0, 0};

inline Timings FastTimings() {
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

inline pb::Hello HelloOfJob() {
  pb::Hello hello;
  hello.set_job("test");
  hello.set_job_digest(1);
  hello.set_model_digest(2);
  hello.set_plan_digest(3);
  return hello;
}

// A sum that takes any payload of at most 8 bytes.
class AnySum : public CellSum {
 public:
  Status Add(uint32_t, const Bytes& payload) override {
    if (payload.size() > 8) return Status(Code::kMismatch, "too long");
    sum_ += payload.view();
    return Ok();
  }
  Bytes Close() override { return Bytes::Own(sum_); }

 private:
  std::string sum_;
};
inline CellSpec AnyCell(const Cell& cell) {
  return {cell, [](uint64_t) { return std::make_unique<AnySum>(); },
          [](const Bytes&, uint32_t) { return Ok(); }};
}

inline Message HelloOf(uint32_t rank, uint64_t incarnation, bool fresh, uint64_t applied) {
  Message message;
  pb::Hello* hello = message.head.mutable_hello();
  *hello = HelloOfJob();
  hello->set_rank(rank);
  hello->set_incarnation(incarnation);
  hello->set_fresh(fresh);
  hello->set_applied(applied);
  hello->set_steps(kSteps);
  return message;
}

inline Message ContributionOf(const Cell& cell, uint32_t rank, uint64_t incarnation,
                              uint64_t round) {
  Message message;
  pb::Contribution* c = MutableContribution(cell.kind, &message.head);
  c->set_rank(rank);
  c->set_incarnation(incarnation);
  c->mutable_in_round()->set_round(round);
  c->mutable_in_round()->set_applied(round - 1);
  message.payload = Bytes::Own("x");
  return message;
}

// A lie of the stranger: any message, but no hello that fits the job.
inline Message LieOfStranger(Input* input) {
  Message message = AnyMessage(input);
  if (message.head.has_hello()) message.head.mutable_hello()->set_job_digest(666);
  return message;
}

// Checks what a server's control plane emits. `only_to`: the only peer that may get messages; 0:
// all may.
inline void ExpectGoodActions(const ControlActions& actions, Peer only_to) {
  if (actions.size() > 1000) Fail("too many actions");
  for (const ControlAction& action : actions) {
    ExpectPrintable(action.text);
    ExpectPrintable(action.status.message());
    ExpectSendable(action.send.message);
    const bool is_answer = action.type == ControlAction::Type::kLog ||
                           (action.type == ControlAction::Type::kSend && action.send.to == only_to);
    if (only_to != 0 && !is_answer) Fail("a stranger did more than get an answer");
  }
}

inline void ExpectGoodSends(const Sends& sends, Peer only_to) {
  if (sends.size() > 1000) Fail("too many messages");
  for (const Send& send : sends) {
    ExpectSendable(send.message);
    if (only_to != 0 && send.to != only_to)
      Fail("a stranger's message is answered to another peer");
  }
}

// Each plays one state machine with the events of the input, and fails if it breaks a promise.
void PlayShard0(Input* input);
void PlayOtherShard(Input* input);
void PlayRoundLane(Input* input);
void PlayClockLane(Input* input);
void PlayWorker(Input* input);

}  // namespace tern::fuzz
