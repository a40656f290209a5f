// Tests of Session::Check(): each test plants one fault, and expects the invariant that it breaks.
// A session is a worker's connections and membership in the job.
#include <gmock/gmock.h>

#include "common/protocol/members/session/session.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol {

// Changes the private state of a session, to break its invariants.
class SessionPeer {
 public:
  explicit SessionPeer(Session* session) : session_(session) {}
  void SetPhase(Session::Phase phase) { session_->state_.phase_ = phase; }
  bool Become(Session::Phase phase) { return session_->state_.Become(phase); }
  void LoseState() { session_->state_.state_held = SessionState::StateHeld::kNothing; }
  void ForgetWelcome() { session_->state_.origin.reset(); }
  StateGiver& giver() { return session_->fetching_.giver_; }
  Exchange& exchange() { return session_->state_.exchange; }
  Links& links() { return session_->state_.links; }
  Links::State& link(LaneRef lane) { return links().links_[lane.shard][lane.lane].state; }

 private:
  Session* session_;
};

namespace test {
namespace {

using testing::HasSubstr;
using SessionPhase = Session::Phase;

// A running session of worker 1 (incarnation 11: the number of its process) in a job with one
// server shard, which has one data lane (socket).
class SessionInvariants : public testing::Test {
 protected:
  void SetUp() override {
    Session::Options options;
    options.rank = 1;
    options.incarnation = 11;
    options.data_lanes = {1};
    options.servers = {"alpha:1"};
    options.hello = TestHello(1, 0);
    options.piece_bytes = 4;
    options.timings = TestTimings();
    session_ = std::make_unique<Session>(std::move(options));
    peer_ = std::make_unique<SessionPeer>(session_.get());
    SessionActions out;
    session_->Start(kStart, &out);
    for (uint32_t lane : {0, 1}) {
      Message message;
      message.head.mutable_welcome()->set_incarnation(70);
      message.head.mutable_welcome()->set_epoch(1);
      if (lane == 0) message.head.mutable_welcome()->add_data_ports(5000);
      session_->OnMessage({0, lane}, message, kStart, &out);
    }
    ASSERT_EQ(session_->phase(), SessionPhase::kRunning);
    ASSERT_EQ(session_->Check().message(), "");
  }
  std::string BrokenInvariant() const {
    const Status check_status = session_->Check();
    EXPECT_EQ(check_status.code(), Code::kInternal);
    return check_status.message();
  }

  static constexpr Time kStart = milliseconds(8000);
  std::unique_ptr<Session> session_;
  std::unique_ptr<SessionPeer> peer_;
};

TEST_F(SessionInvariants, OneThatRunsWithoutState) {
  peer_->LoseState();
  EXPECT_EQ(BrokenInvariant(), "session: running, and has no state");
}

TEST_F(SessionInvariants, OneThatFetchesWhatItHas) {
  peer_->SetPhase(SessionPhase::kFetching);
  EXPECT_EQ(BrokenInvariant(), "session: fetching, and has state");
  peer_->SetPhase(SessionPhase::kInstalling);
  EXPECT_EQ(BrokenInvariant(), "session: installing, and has state");
}

TEST_F(SessionInvariants, OneThatFetchesUnasked) {
  peer_->SetPhase(SessionPhase::kFetching);
  peer_->LoseState();
  peer_->ForgetWelcome();
  EXPECT_EQ(BrokenInvariant(), "session: fetching, and shard 0 has said no Welcome");
}

TEST_F(SessionInvariants, OneThatJoinsThoughAllLinksAreUp) {
  peer_->SetPhase(SessionPhase::kJoining);
  EXPECT_EQ(BrokenInvariant(), "session: joining, and all its links are up");
}

TEST_F(SessionInvariants, SnapshotsOfAStateThatItHasNot) {
  pb::StateWant state_want;
  state_want.set_rank(0);
  state_want.set_incarnation(10);
  std::optional<Message> piece;
  EXPECT_TRUE(peer_->giver().OnWant(state_want, &piece));
  peer_->SetPhase(SessionPhase::kLeaving);
  peer_->LoseState();
  EXPECT_EQ(BrokenInvariant(), "session: has no state, and keeps 1 snapshots of it");
}

TEST_F(SessionInvariants, ALinkThatIsUpHereAlone) {
  peer_->exchange().OnLaneDown({0, 1});
  EXPECT_EQ(BrokenInvariant(), "link 0.1: is up, and down for the exchange");
}

TEST_F(SessionInvariants, ADataLinkWithoutAWelcome) {
  peer_->link({0, 0}) = Links::State::kGreeting;
  peer_->links().shard(0).incarnation = 0;
  EXPECT_EQ(BrokenInvariant(), "link 0.1: is up, and shard 0 has said no Welcome");
}

TEST_F(SessionInvariants, ImpossibleTransitions) {
  EXPECT_EQ(InvariantBrokenBy([this] { EXPECT_FALSE(peer_->Become(SessionPhase::kFetching)); }),
            "a session that is running cannot become fetching");
  EXPECT_EQ(session_->phase(), SessionPhase::kRunning);
  peer_->links().DropDataLinks(0);
  EXPECT_EQ(InvariantBrokenBy([this] {
              peer_->links().Become({0, 1}, Links::State::kUp);
            }),
            "link 0.1: is down, and cannot become up");
  EXPECT_FALSE(peer_->links().IsUp({0, 1}));
}

}  // namespace
}  // namespace test
}  // namespace tern::protocol
