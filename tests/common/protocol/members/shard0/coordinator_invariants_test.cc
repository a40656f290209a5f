// Tests of Coordinator::Check(), which also checks the roster of workers: each test plants one
// fault, and expects the invariant that it breaks.
#include <gmock/gmock.h>

#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol {

// Changes the private state of a coordinator, to break its invariants.
class CoordinatorPeer {
 public:
  explicit CoordinatorPeer(const Coordinator& coordinator)
      : coordinator_(const_cast<Coordinator&>(coordinator)) {}
  JobState& job() { return coordinator_.job_; }
  JobPhase& phase() { return coordinator_.job_.phase_; }

 private:
  Coordinator& coordinator_;
};

namespace test {
namespace {

using testing::HasSubstr;
using Presence = Roster::Worker::Presence;

// Two workers, 0 and 1, of a running job.
class CoordinatorInvariants : public testing::Test {
 protected:
  void SetUp() override {
    shard0_.GatherWorkers();
    ASSERT_TRUE(shard0_.coordinator().running());
    ASSERT_EQ(shard0_.coordinator().Check().message(), "");
  }
  std::string BrokenInvariant() const {
    const Status check_status = shard0_.coordinator().Check();
    EXPECT_EQ(check_status.code(), Code::kInternal);
    return check_status.message();
  }
  Roster::Worker& worker(uint32_t rank) { return peer_.job().roster.workers[rank]; }

  Shard0 shard0_{OnLoss::kWait};
  CoordinatorPeer peer_{shard0_.coordinator()};
};

TEST_F(CoordinatorInvariants, AWorkerThatIsThereHasAnIncarnation) {
  worker(1).incarnation = 0;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("worker 1 is there, and has no incarnation"));
}

TEST_F(CoordinatorInvariants, OneThatIsAbsentHasNone) {
  worker(1).presence = Presence::kAbsent;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("worker 1 is absent, and its incarnation is 11"));
}

TEST_F(CoordinatorInvariants, OnlyALiveWorkerJoinsOrIsAwaited) {
  worker(0).presence = Presence::kLost;
  worker(0).joining = true;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("worker 0 is joining or awaited, and not live"));
}

TEST_F(CoordinatorInvariants, OnlyALostWorkerMayReturn) {
  worker(0).may_return = true;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("worker 0 may return, and was not lost"));
}

TEST_F(CoordinatorInvariants, ARetiredIncarnationIsNotAMember) {
  worker(0).retired_incarnations = {3, 10};
  EXPECT_THAT(BrokenInvariant(), HasSubstr("worker 0 has the incarnation 10, which was retired"));
}

TEST_F(CoordinatorInvariants, AJobThatEndsSaysFarewell) {
  peer_.phase() = JobPhase::kEnding;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("the farewell was not said, and the job is ending"));
}

TEST_F(CoordinatorInvariants, AJobThatRunsDoesNotGather) {
  EXPECT_THAT(InvariantBrokenBy([&] { peer_.job().Become(JobPhase::kAsking); }),
              HasSubstr("a job that is running cannot become asking"));
}

TEST_F(CoordinatorInvariants, WhatBeganFromACheckpointHasABeginning) {
  peer_.job().begin.checkpoint.emplace();
  EXPECT_THAT(BrokenInvariant(), HasSubstr("began from a checkpoint, and has no beginning"));
}

TEST_F(CoordinatorInvariants, NobodyIsAdmittedInAnEpochToCome) {
  worker(1).epoch = 7;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("1 was admitted in epoch 7, the job's is 1"));
}

TEST_F(CoordinatorInvariants, EveryWorkerOfARunningJobWasAdmitted) {
  worker(1).epoch = 0;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("1 was admitted in epoch 0, the job's is 1"));
}

}  // namespace
}  // namespace test
}  // namespace tern::protocol
