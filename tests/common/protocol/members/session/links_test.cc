// Tests of Session: which connections it replaces, and which not. LaneRef{s, l} is socket l of
// shard s: lane 0 is control, the others carry data.
#include <gmock/gmock.h>

#include "tests/common/protocol/members/session/session_fixture.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using Type = SessionAction::Type;

TEST_F(SessionTest, ReplacesAConnectionThatBreaks) {
  JoinJob();
  SessionActions out;
  session_->OnDisconnected({1, 2}, now_, &out);
  EXPECT_EQ(LanesToConnect(out), (std::vector<LaneRef>{{1, 2}}));
  EXPECT_EQ(out[0].port, 5011u);
  out.clear();
  session_->OnDisconnected({1, 0}, now_, &out);
  EXPECT_EQ(LanesToConnect(out), (std::vector<LaneRef>{{1, 0}}));
}

TEST_F(SessionTest, ReplacesAControlConnectionThatIsSilent) {
  JoinJob();
  EXPECT_TRUE(LanesToConnect(AdvanceTime(milliseconds(1400))).empty());
  EXPECT_EQ(LanesToConnect(AdvanceTime(milliseconds(200))).size(), 2u);
  EXPECT_TRUE(LanesToConnect(AdvanceTime(milliseconds(1400))).empty());
  EXPECT_EQ(LanesToConnect(AdvanceTime(milliseconds(200))).size(), 2u);
}

TEST_F(SessionTest, ReplacesAConnectionOnWhichAMessageWasDamaged) {
  JoinJob();
  SessionActions out;
  session_->OnDamaged({1, 2}, "a message was damaged on its way", now_, &out);
  EXPECT_EQ(LanesToConnect(out), (std::vector<LaneRef>{{1, 2}}));
  EXPECT_THAT(out[0].text, HasSubstr("server shard 1 (beta:2), lane 2: a message was damaged"));
  Message refuse =
      MakeRefusal(Code::kNotAllowed, "a message was damaged on its way", pb::Refuse::reconnect);
  EXPECT_EQ(LanesToConnect(Deliver({0, 1}, refuse)), (std::vector<LaneRef>{{0, 1}}));
  EXPECT_EQ(LanesToConnect(Deliver({0, 0}, refuse)), (std::vector<LaneRef>{{0, 0}}));
}

TEST_F(SessionTest, ReplacesADataConnectionThatDoesNotAnswerAProbe) {
  JoinJob();
  SessionActions out;
  session_->Contribute({Kind::kPush, 0, 0}, {1, 2}, InRound{1, Text("x")}, now_, &out);
  const auto is_replaced_within = [this](milliseconds time) {
    for (const Time end = now_ + time; now_ < end;) {
      DeliverEchoes();
      for (const LaneRef& lane : LanesToConnect(AdvanceTime(milliseconds(100)))) {
        EXPECT_EQ(lane, (LaneRef{1, 2}));
        return true;
      }
    }
    return false;
  };
  const auto probes = SentMessages(pb::Envelope::kHello, AdvanceTime(milliseconds(300)));
  ASSERT_EQ(probes.size(), 1u);
  EXPECT_EQ(probes[0].lane, (LaneRef{1, 2}));
  DeliverWelcome({1, 2}, 71);
  EXPECT_FALSE(is_replaced_within(milliseconds(1700))) << "the lane answered the first probe";
  EXPECT_TRUE(is_replaced_within(milliseconds(300)));
  // On a slow link an answer may only be late, so the next connection has twice the time.
  EXPECT_FALSE(is_replaced_within(milliseconds(2900)));
  EXPECT_TRUE(is_replaced_within(milliseconds(300)));
}

TEST_F(SessionTest, RepeatsOnlyWhatTheAnswerToAProbeDoesNotCount) {
  JoinJob();
  SessionActions out;
  for (uint32_t chunk = 0; chunk < 2; ++chunk) {
    session_->Contribute({Kind::kPush, 0, chunk}, {1, 2}, InRound{1, Text("x")}, now_, &out);
  }
  const SessionActions timer = AdvanceTime(milliseconds(300));
  EXPECT_TRUE(SentMessages(pb::Envelope::kPush, timer).empty());
  const auto probes = SentMessages(pb::Envelope::kHello, timer);
  ASSERT_EQ(probes.size(), 1u);
  Message answer;
  pb::Welcome* welcome = answer.head.mutable_welcome();
  welcome->set_incarnation(71);
  EXPECT_TRUE(Deliver({1, 2}, answer).empty()) << "a Welcome that answers no probe is repeated";
  welcome->set_probe(probes[0].message.head.hello().probe());
  welcome->add_counted()->set_exchange(1);
  welcome->mutable_counted(0)->set_chunk(1);
  const auto pushes = SentMessages(pb::Envelope::kPush, Deliver({1, 2}, answer));
  ASSERT_EQ(pushes.size(), 1u);
  EXPECT_EQ(pushes[0].message.head.push().chunk(), 0u);
}

TEST_F(SessionTest, ConnectsNoDataLaneAgainThatWasProbedBeforeItRejoined) {
  JoinJob();
  SessionActions out;
  session_->Contribute({Kind::kPush, 0, 0}, {1, 2}, InRound{1, Text("x")}, now_, &out);
  ASSERT_EQ(SentMessages(pb::Envelope::kHello, AdvanceTime(milliseconds(300))).size(), 1u);
  Deliver({0, 0}, MakeRefusal(Code::kNotAllowed, "given up", pb::Refuse::rejoin));
  DeliverWelcome({1, 0}, 81);  // that of shard 0 is late
  for (int i = 0; i < 30; ++i) {
    DeliverEcho({1, 0});
    for (const LaneRef& lane : LanesToConnect(AdvanceTime(milliseconds(100))))
      EXPECT_EQ(lane.lane, 0u) << "of shard " << lane.shard;
  }
  EXPECT_EQ(LanesToConnect(DeliverWelcome({0, 0}, 70)),
            (std::vector<LaneRef>{{0, 1}, {1, 1}, {1, 2}}));
}

TEST_F(SessionTest, ReplacesAControlConnectionOnWhichItIsNotHeard) {
  JoinJob();
  for (int i = 0; i < 19; ++i) {
    DeliverPulse({0, 0}, 70);
    DeliverEcho({1, 0});
    EXPECT_TRUE(LanesToConnect(AdvanceTime(milliseconds(100))).empty());
  }
  DeliverPulse({0, 0}, 70);
  DeliverEcho({1, 0});
  const SessionActions out = AdvanceTime(milliseconds(200));
  EXPECT_EQ(LanesToConnect(out), (std::vector<LaneRef>{{0, 0}}));
}

}  // namespace
}  // namespace tern::protocol::test
