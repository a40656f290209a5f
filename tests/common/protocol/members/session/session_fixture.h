// A session of a worker, for tests, with what it is told and what it does about it.
#pragma once

#include <gmock/gmock.h>

#include <memory>
#include <vector>

#include "common/protocol/members/session/session.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {

// Rank 1 of a job with two shards, the first with one data lane, the other with two.
class SessionTest : public testing::Test {
 protected:
  SessionTest() { MakeSession(); }
  void MakeSession() {
    start_actions_.clear();
    Session::Options options;
    options.rank = 1;
    options.incarnation = 11;
    options.data_lanes = {1, 2};
    options.servers = {"alpha:1", "beta:2"};
    options.hello = TestHello(1, 0);
    options.max_state_bytes = 100;
    options.piece_bytes = 4;
    options.timings = TestTimings();
    session_ = std::make_unique<Session>(std::move(options));
    session_->Start(now_, &start_actions_);
  }
  SessionActions Deliver(LaneRef lane, const Message& message) {
    SessionActions out;
    session_->OnMessage(lane, message, now_, &out);
    return out;
  }
  SessionActions AdvanceTime(Time time) {
    now_ += time;
    SessionActions out;
    session_->OnTimer(now_, &out);
    return out;
  }
  SessionActions DeliverWelcome(LaneRef lane, uint64_t incarnation, bool needs_state = false) {
    Message message;
    pb::Welcome* welcome = message.head.mutable_welcome();
    welcome->set_incarnation(incarnation);
    welcome->set_epoch(1);
    welcome->set_needs_state(needs_state);
    for (uint32_t data_lane = 0; lane.lane == 0 && data_lane <= lane.shard; ++data_lane) {
      welcome->add_data_ports(5000 + lane.shard * 10 + data_lane);
    }
    return Deliver(lane, message);
  }
  SessionActions JoinJob(bool needs_state = false) {
    SessionActions all_actions;
    for (LaneRef lane :
         {LaneRef{0, 0}, LaneRef{1, 0}, LaneRef{0, 1}, LaneRef{1, 1}, LaneRef{1, 2}}) {
      for (auto& action : DeliverWelcome(lane, 70 + lane.shard, needs_state))
        all_actions.push_back(action);
    }
    return all_actions;
  }
  SessionActions DeliverPulse(LaneRef lane, uint64_t incarnation, uint64_t floor = 0) {
    Message message;
    message.head.mutable_pulse()->set_incarnation(incarnation);
    message.head.mutable_pulse()->set_epoch(1);
    message.head.mutable_pulse()->set_floor(floor);
    return Deliver(lane, message);
  }
  void DeliverEcho(LaneRef lane) {
    Message echo;
    echo.head.mutable_echo()->set_sent_ns(now_.count());
    Deliver(lane, echo);
  }
  void DeliverEchoes() {
    for (const LaneRef& lane : {LaneRef{0, 0}, LaneRef{1, 0}}) DeliverEcho(lane);
  }
  static std::vector<LaneRef> LanesToConnect(const SessionActions& actions) {
    std::vector<LaneRef> lanes;
    for (const auto& action : actions) {
      if (action.type == SessionAction::Type::kConnect) lanes.push_back(action.lane);
    }
    return lanes;
  }
  static std::vector<SessionAction> SentMessages(pb::Envelope::BodyCase body,
                                                 const SessionActions& actions) {
    std::vector<SessionAction> sent_messages;
    for (const auto& action : actions) {
      if (action.type == SessionAction::Type::kSend && action.message.head.body_case() == body) {
        sent_messages.push_back(action);
      }
    }
    return sent_messages;
  }
  static Status EndStatusOf(const SessionActions& actions) {
    for (const auto& action : actions) {
      if (action.type == SessionAction::Type::kEnded) return action.status;
    }
    return Status(Code::kInternal, "not ended");
  }

  Time now_ = milliseconds(1000);
  std::unique_ptr<Session> session_;
  SessionActions start_actions_;
};

}  // namespace tern::protocol::test
