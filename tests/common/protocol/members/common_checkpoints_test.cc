// Tests which checkpoints a server offers whose data lanes save their own parameters, and how many
// each lane must keep.
#include <gmock/gmock.h>

#include "common/protocol/members/recovery.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::ElementsAre;

std::vector<uint64_t> StepsOf(const Checkpoints& checkpoints) {
  std::vector<uint64_t> steps;
  for (const pb::Checkpoint& checkpoint : checkpoints) steps.push_back(checkpoint.step());
  return steps;
}
// What one lane (a server's socket with its thread) has on its disk.
SavedCheckpoints SavedOnLane(const Checkpoints& saved, uint64_t run) { return {saved, {}, run}; }

TEST(CommonCheckpoints, HasWhatAllLanesHave) {
  EXPECT_EQ(CommonCheckpoints({}).prepared_run, 0u);
  const SavedCheckpoints common_saved = CommonCheckpoints(
      {SavedOnLane(CheckpointsAfter({10, 20}), 3), SavedOnLane(CheckpointsAfter({20, 30}), 3)});
  EXPECT_THAT(StepsOf(common_saved.checkpoints), ElementsAre(20u));
  EXPECT_FALSE(common_saved.unfit.has_sentence());
}

TEST(CommonCheckpoints, AddsUpWhatCouldNotBeWritten) {
  SavedCheckpoints lane1 = SavedOnLane(CheckpointsAfter({10}), 3), lane2 = lane1;
  lane1.num_failed = 2;
  lane2.num_failed = 3;
  EXPECT_EQ(CommonCheckpoints({lane1, lane2}).num_failed, 5u);
}

TEST(CommonCheckpoints, SaysWhereLanesHaveNothingInCommon) {
  const SavedCheckpoints common_with_lost_disk =
      CommonCheckpoints({SavedOnLane(CheckpointsAfter({10, 20}), 3), SavedOnLane({}, 0)});
  EXPECT_TRUE(common_with_lost_disk.checkpoints.empty());
  EXPECT_EQ(common_with_lost_disk.unfit.sentence(), "its data lanes have no checkpoint in common");
  EXPECT_EQ(common_with_lost_disk.prepared_run, 0u);
  const SavedCheckpoints common_after_early_end =
      CommonCheckpoints({SavedOnLane({CheckpointAfter(10)}, 3), SavedOnLane({}, 3)});
  EXPECT_FALSE(common_after_early_end.unfit.has_sentence())
      << "the other lane had not yet written its first checkpoint";
  EXPECT_EQ(common_after_early_end.prepared_run, 3u);
  // A lane of this run whose checkpoints are gone, while another has written two.
  const SavedCheckpoints common_without_some =
      CommonCheckpoints({SavedOnLane(CheckpointsAfter({10, 20}), 3), SavedOnLane({}, 3)});
  EXPECT_EQ(common_without_some.unfit.sentence(), "its data lanes have no checkpoint in common");
  EXPECT_EQ(common_without_some.prepared_run, 0u);
  SavedCheckpoints foreign_lane = SavedOnLane({}, 0);
  foreign_lane.unfit.set_other_job(true);
  foreign_lane.unfit.set_sentence("of another job");
  EXPECT_EQ(CommonCheckpoints({SavedOnLane(CheckpointsAfter({10, 20}), 3), foreign_lane})
                .unfit.sentence(),
            "of another job");
}

TEST(CommonCheckpoints, ContainsOwnCheckpointsOfLanesOnlyIfAllLanesHaveThem) {
  SavedCheckpoints lane1 = SavedOnLane(CheckpointsAfter({10, 20}), 3),
                   lane2 = SavedOnLane({CheckpointAfter(10)}, 3);
  lane1.shard_checkpoints = CheckpointsAfter({14, 18});
  // The shard died before the second lane knew that all daemons had the checkpoint of step 20.
  lane2.shard_checkpoints = CheckpointsAfter({12, 14, 20});
  const SavedCheckpoints common_saved = CommonCheckpoints({lane1, lane2});
  EXPECT_THAT(StepsOf(common_saved.checkpoints), ElementsAre(10u));
  EXPECT_THAT(StepsOf(common_saved.shard_checkpoints), ElementsAre(14u, 20u));
  EXPECT_FALSE(common_saved.unfit.has_sentence());
}

// Two lanes close rounds at most `window` apart, and write a checkpoint after every `every` rounds.
// Even if one lane has lost its newest checkpoint, there is one that both have kept.
TEST(MinCheckpointsToKeep, LeavesACheckpointThatAllLanesHave) {
  for (const uint64_t every : {1, 2, 3, 10, 1000}) {
    for (const uint64_t window : {1, 2}) {
      const uint64_t num_kept = MinCheckpointsToKeep(every, window);
      for (uint64_t slow_round = 100 * every; slow_round < 101 * every; ++slow_round) {
        const uint64_t fast_round = slow_round + window;
        const uint64_t oldest_round_of_fast = (fast_round / every - (num_kept - 1)) * every;
        const uint64_t newest_round_of_slow = (slow_round / every - 1) * every;
        EXPECT_LE(oldest_round_of_fast, newest_round_of_slow) << every << ", " << window;
      }
    }
  }
}

}  // namespace
}  // namespace tern::protocol::test
