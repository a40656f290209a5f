// What Check() of a coordinator and its roster finds: one planted fault for each invariant.
#include <gmock/gmock.h>

#include "tests/common/protocol/members/shard0.h"

namespace tern::protocol {

// Reaches into a coordinator, to break it.
class CoordinatorPeer {
 public:
  explicit CoordinatorPeer(const Coordinator& coordinator)
      : coordinator_(const_cast<Coordinator&>(coordinator)) {}
  Roster& roster() { return coordinator_.roster_; }
  bool& gathered() { return coordinator_.gathered_; }
  bool& called() { return coordinator_.called_; }
  bool& going_back() { return coordinator_.going_back_; }
  Begin& begin() { return coordinator_.begin_; }

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
    shard0_.Gather();
    ASSERT_TRUE(shard0_.coordinator().running());
    ASSERT_EQ(shard0_.coordinator().Check().message(), "");
  }
  std::string Broken() const {
    const Status status = shard0_.coordinator().Check();
    EXPECT_EQ(status.code(), Code::kInternal);
    return status.message();
  }
  Roster::Worker& worker(uint32_t rank) { return peer_.roster().workers[rank]; }

  Shard0 shard0_{OnLoss::kWait};
  CoordinatorPeer peer_{shard0_.coordinator()};
};

TEST_F(CoordinatorInvariants, AWorkerThatIsThereHasAnIncarnation) {
  worker(1).incarnation = 0;
  EXPECT_THAT(Broken(), HasSubstr("worker 1 is there, and has no incarnation"));
}

TEST_F(CoordinatorInvariants, OneThatIsAbsentHasNone) {
  worker(1).presence = Presence::kAbsent;
  EXPECT_THAT(Broken(), HasSubstr("worker 1 is absent, and its incarnation is 11"));
}

TEST_F(CoordinatorInvariants, OnlyALiveWorkerJoinsOrIsAwaited) {
  worker(0).presence = Presence::kLost;
  worker(0).joining = true;
  EXPECT_THAT(Broken(), HasSubstr("worker 0 is joining or awaited, and not live"));
}

TEST_F(CoordinatorInvariants, OnlyALostWorkerMayReturn) {
  worker(0).may_return = true;
  EXPECT_THAT(Broken(), HasSubstr("worker 0 may return, and was not lost"));
}

TEST_F(CoordinatorInvariants, ARetiredIncarnationHasNoPlace) {
  worker(0).retired = {3, 10};
  EXPECT_THAT(Broken(), HasSubstr("worker 0 has the incarnation 10, which was retired"));
}

TEST_F(CoordinatorInvariants, AJobThatRunsIsNotGoingBack) {
  peer_.going_back() = true;
  EXPECT_THAT(Broken(), HasSubstr("the job runs, and is going back"));
}

TEST_F(CoordinatorInvariants, WorkersAreCalledAnewOnlyWhereTheJobGoesBack) {
  peer_.gathered() = false;
  peer_.called() = true;
  EXPECT_THAT(Broken(), HasSubstr("called anew or shards asked, and the job is not going back"));
}

TEST_F(CoordinatorInvariants, WhatBeganFromACheckpointHasABeginning) {
  peer_.begin().from.emplace();
  EXPECT_THAT(Broken(), HasSubstr("began from a checkpoint, and has no beginning"));
}

TEST_F(CoordinatorInvariants, NobodyIsAdmittedInAnEpochToCome) {
  worker(1).epoch = 7;
  EXPECT_THAT(Broken(), HasSubstr("1 was admitted in epoch 7, the job's is 1"));
}

}  // namespace
}  // namespace test
}  // namespace tern::protocol
