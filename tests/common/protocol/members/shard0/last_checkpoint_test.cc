// Tests that shard 0 names the step of the last checkpoint to all daemons when it ends the job
// (ending.h): without rounds the step that its own data lanes have reached, with rounds that of the
// workers' last checkpoint.
#include <gtest/gtest.h>

#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol::test {
namespace {

using Type = ControlAction::Type;

// The lanes of shard 0 have reached `step`, which must outlive the result.
ControlOptions OptionsAtStep(const uint64_t& step, OnLoss on_loss) {
  ControlOptions options = TestOptions(1, 2, on_loss);
  options.workers_hold_state = false;
  options.find_last_step = [&step] { return step; };
  return options;
}

TEST(LastCheckpoint, IsOfTheStepAtTheLastBye) {
  uint64_t step = 11;
  Shard0 shard0(OptionsAtStep(step, OnLoss::kWait));
  shard0.GatherWorkers();
  shard0.Stop(Code::kTerminated);
  shard0.Deliver(100, ByeMessage(0, 10));
  step = 12;
  ControlActions out = shard0.Deliver(101, ByeMessage(1, 11));
  const pb::End end = FirstMessageTo(100, pb::Envelope::kEnd, SendsOf(out)).head.end();
  EXPECT_EQ(end.code(), 143u);
  EXPECT_EQ(end.last_step(), 12u);
  step = 13;
  Message answer;
  answer.head.mutable_end();
  shard0.Deliver(100, answer);
  out = shard0.Deliver(101, answer);
  ASSERT_EQ(Count(out, Type::kEnded), 1);
  EXPECT_EQ(out.back().last_step, 12u) << "shard 0 writes what it has told the others";
}

TEST(LastCheckpoint, IsWrittenIfASignalComesWhileAWorkerIsLost) {
  const uint64_t step = 12;
  Shard0 shard0(OptionsAtStep(step, OnLoss::kWait));
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(3200), {0});
  EXPECT_EQ(Shard0::AbortTo(100, shard0.Stop(Code::kTerminated)).last_step(), 12u);
}

TEST(LastCheckpoint, IsWrittenIfALossEndsTheJob) {
  const uint64_t step = 12;
  Shard0 shard0(OptionsAtStep(step, OnLoss::kFail));
  shard0.GatherWorkers();
  const ControlActions out = shard0.Deliver(101, ByeMessage(1, 11, Code::kPeerLost, "cut off"));
  EXPECT_EQ(Shard0::AbortTo(100, out).last_step(), 12u);
}

TEST(LastCheckpoint, IsNotWrittenAfterADivergence) {
  const uint64_t step = 12;
  Shard0 shard0(OptionsAtStep(step, OnLoss::kWait));
  shard0.GatherWorkers();
  const ControlActions out = shard0.Deliver(101, ByeMessage(1, 11, Code::kDiverged, "a NaN"));
  EXPECT_EQ(Shard0::AbortTo(100, out).code(), 79u);
  EXPECT_FALSE(Shard0::AbortTo(100, out).has_last_step());
}

// Not all shards would have it, and it may replace one that all have.
TEST(LastCheckpoint, IsNotWrittenIfAShardHasLostItsPart) {
  const uint64_t step = 12;
  for (const Code code : {Code::kBadData, Code::kCannotWrite}) {
    Shard0 shard0(OptionsAtStep(step, OnLoss::kWait));
    shard0.GatherWorkers();
    const pb::Abort abort = Shard0::AbortTo(100, shard0.Fail(Status(code, "no disk")));
    EXPECT_EQ(abort.sentence(), "server shard 0 cannot go on: no disk");
    EXPECT_EQ(abort.has_last_step(), code != Code::kBadData);
  }
}

ControlOptions OptionsWithRounds() {
  ControlOptions options = TestOptions(1, 2, OnLoss::kFail);
  options.last_checkpoint_step = [](uint64_t steps) { return steps / 30 * 30; };
  return options;
}

TEST(LastCheckpoint, IsThatOfTheWorkersWithRounds) {
  Shard0 shard0(OptionsWithRounds());
  shard0.GatherWorkers();
  shard0.Deliver(100, ByeMessage(0, 10));
  const ControlActions out = shard0.Deliver(101, ByeMessage(1, 11));
  const pb::End end = FirstMessageTo(100, pb::Envelope::kEnd, SendsOf(out)).head.end();
  EXPECT_EQ(end.last_step(), 90u);
}

TEST(LastCheckpoint, IsNotWrittenWithRoundsIfTheJobFails) {
  Shard0 shard0(OptionsWithRounds());
  shard0.GatherWorkers();
  const ControlActions out = shard0.Deliver(101, ByeMessage(1, 11, Code::kPeerLost, "cut off"));
  EXPECT_FALSE(Shard0::AbortTo(100, out).has_last_step());
}

TEST(LastCheckpoint, IsNotWrittenBeforeTheRunHasState) {
  const uint64_t step = 0;
  Shard0 shard0(OptionsAtStep(step, OnLoss::kWait));
  const ControlActions out = shard0.Stop(Code::kTerminated);
  ASSERT_EQ(Count(out, Type::kEnded), 1);
  EXPECT_EQ(out.back().last_step, 0u);
}

}  // namespace
}  // namespace tern::protocol::test
