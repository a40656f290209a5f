// Tests of FindSaved, which finds the checkpoints on disk from which a process can resume the job,
// and explains why it cannot use other checkpoints.
#include "setup/saved.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "common/base/text.h"
#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class FindSavedTest : public testing::Test {
 protected:
  FindSavedTest() {
    dir_ = testing::TempDir() + "tern_saved_XXXXXX";
    EXPECT_NE(mkdtemp(dir_.data()), nullptr);
  }
  ~FindSavedTest() override { fs::remove_all(dir_); }

  // Returns a store for the checkpoint folder of worker 0. The caller must call Open on the store.
  std::unique_ptr<checkpoint::Store> MakeStore(const setup::Setup& setup) const {
    return std::make_unique<checkpoint::Store>(
        CheckpointOwner(setup, dir_, "worker.0"),
        checkpoint::NumKept{.num_of_all = 2, .num_of_shard = 3});
  }
  void WriteCheckpoints(const std::vector<std::string>& overrides,
                        const std::vector<uint64_t>& steps,
                        checkpoint::Kind kind = checkpoint::Kind::kOfAll) const {
    const auto setup = SmallSetup(overrides);
    const auto store = MakeStore(*setup);
    store->Open();
    ASSERT_TRUE(store->Begin(7, kind == checkpoint::Kind::kOfAll).ok());
    const std::vector<float> values(10);
    for (const uint64_t step : steps)
      ASSERT_TRUE(store->Write({7, step, step}, kind, {{"weights", {10}, values}}, {}).ok());
  }
  protocol::SavedCheckpoints FindForJob(const std::vector<std::string>& overrides) const {
    const auto setup = SmallSetup(overrides);
    const auto store = MakeStore(*setup);
    store->Open();
    return FindSaved(*setup, *store);
  }
  std::string FolderPath() const { return dir_ + "/checkpoints/worker.0"; }

  std::string dir_;
};

TEST_F(FindSavedTest, OffersCheckpointsOfTheSameJob) {
  WriteCheckpoints({}, {10, 20});
  // A job may resume from a checkpoint although these keys have changed.
  const protocol::SavedCheckpoints saved =
      FindForJob({"train.steps=500", "evaluation.every_steps=7", "workers.threads=2",
                  "servers.0.address=127.0.0.1:7777", "checkpoints.keep=3",
                  "train.schedule.learning_rate=0.5"});
  ASSERT_THAT(saved.checkpoints, SizeIs(2));
  EXPECT_EQ(saved.checkpoints[1].step(), 20u);
  EXPECT_EQ(saved.checkpoints[1].run(), 7u);
  EXPECT_EQ(saved.prepared_run, 7u);
  EXPECT_FALSE(saved.unfit.has_sentence());
}

TEST_F(FindSavedTest, NamesTheKeysThatChangedSinceTheLastRun) {
  const auto changes_for = [&](const std::vector<std::string>& overrides) {
    auto setup = SmallSetup(overrides);
    setup->job.set_output_dir(dir_);
    return ChangesSinceLastRun(*setup);
  };
  EXPECT_EQ(changes_for({}), "") << "there was none";
  WriteCheckpoints({"train.schedule.learning_rate=0.25"}, {10});
  EXPECT_EQ(changes_for({"train.schedule.learning_rate=0.5", "servers.0.address=127.0.0.1:7777"}),
            "train.schedule.learning_rate was 0.25, is now 0.5");
}

TEST_F(FindSavedTest, NamesTheKeyThatDiffersInAnotherJob) {
  WriteCheckpoints({"train.clip_norm=1"}, {10, 20});
  const protocol::SavedCheckpoints saved = FindForJob({"train.clip_norm=2"});
  EXPECT_THAT(saved.checkpoints, SizeIs(0));
  EXPECT_EQ(saved.prepared_run, 0u);
  EXPECT_TRUE(saved.unfit.other_job());
  EXPECT_EQ(saved.unfit.sentence(), FolderPath() +
                                        " has checkpoints up to step 20 of another job: "
                                        "train.clip_norm was 1, is now 2");
}

TEST_F(FindSavedTest, OffersCheckpointsOfAJobWhoseDifferencesAreAccepted) {
  WriteCheckpoints({"train.clip_norm=1", "train.optimizer.momentum=0.8"}, {10, 20});
  const std::vector<std::string> changes = {"train.clip_norm=2", "train.optimizer.momentum=0.9"};
  const auto find_with = [&](const std::string& accept) {
    std::vector<std::string> overrides = changes;
    overrides.push_back("checkpoints.accept=" + accept);
    return FindForJob(overrides);
  };
  EXPECT_THAT(find_with("[train.clip_norm, train.optimizer]").checkpoints, SizeIs(2));
  const protocol::SavedCheckpoints saved = find_with("[train.clip_norm]");
  EXPECT_THAT(saved.checkpoints, SizeIs(0));
  EXPECT_THAT(saved.unfit.sentence(), HasSubstr(": train.optimizer.momentum was 0.8, is now 0.9"));
}

// A job stays the same while the keys that it accepts change: what it wrote before can be used
// until all daemons have written something newer.
TEST_F(FindSavedTest, UsesWhatAJobWroteBeforeAndAfterItsKeysChanged) {
  WriteCheckpoints({"train.clip_norm=1"}, {10, 20});
  const std::vector<std::string> changed = {"train.clip_norm=2",
                                            "checkpoints.accept=[train.clip_norm]"};
  const auto setup = SmallSetup(changed);
  {
    const auto store = MakeStore(*setup);
    store->Open();
    EXPECT_THAT(ChangesAtResume(*setup, *store, 7), HasSubstr("train.clip_norm was 1, is now 2"));
    ASSERT_TRUE(store->Begin(7, false).ok());
  }
  ASSERT_THAT(FindForJob({"train.clip_norm=2"}).checkpoints, SizeIs(2))
      << "run.json is of the changed job, to which these checkpoints belong";
  const std::vector<float> values(10);
  {
    const auto store = MakeStore(*setup);
    store->Open();
    ASSERT_TRUE(
        store->Write({7, 30, 30}, checkpoint::Kind::kOfAll, {{"weights", {10}, values}}, {}).ok());
    EXPECT_TRUE(store->Read({7, 20, 20}).ok()) << "of the job before";
  }
  EXPECT_THAT(FindForJob({"train.clip_norm=2"}).checkpoints, SizeIs(2));
  EXPECT_THAT(FindForJob({"train.clip_norm=1"}).unfit.sentence(),
              HasSubstr("up to step 30 of another job: train.clip_norm was 2, is now 1"));
}

TEST_F(FindSavedTest, OffersAShardsOwnCheckpointsSeparately) {
  WriteCheckpoints({}, {10});
  WriteCheckpoints({}, {14, 18}, checkpoint::Kind::kShard);
  const protocol::SavedCheckpoints saved = FindForJob({});
  ASSERT_THAT(saved.checkpoints, SizeIs(1));
  EXPECT_EQ(saved.checkpoints[0].step(), 10u);
  ASSERT_THAT(saved.shard_checkpoints, SizeIs(2));
  EXPECT_EQ(saved.shard_checkpoints[1].step(), 18u);
  const protocol::SavedCheckpoints saved_for_other_job = FindForJob({"seed=2"});
  EXPECT_THAT(saved_for_other_job.shard_checkpoints, SizeIs(0));
  EXPECT_THAT(saved_for_other_job.unfit.sentence(),
              HasSubstr("has checkpoints up to step 10 of another job"))
      << "no word of those that no other job has to go on from";
}

TEST_F(FindSavedTest, NamesThreeKeysOfAnotherJobAndCountsTheRest) {
  WriteCheckpoints({}, {10});
  const std::string sentence =
      FindForJob({"seed=2", "train.clip_norm=2", "train.batch_total=32", "exchange.codec=fp32"})
          .unfit.sentence();
  EXPECT_THAT(sentence, HasSubstr(": seed was 1, is now 2; train.batch_total was 64, is now "
                                  "32; train.clip_norm was 0, is now 2; and 1 key more"));
}

const std::string kListOfTwoServers =
    "servers=[{address: '127.0.0.1:7500'}, {address: '127.0.0.1:7501'}]";

TEST_F(FindSavedTest, OffersCheckpointsOfAJobOfAnotherSize) {
  WriteCheckpoints({}, {10});
  const protocol::SavedCheckpoints with_workers = FindForJob({"workers.count=4"}),
                                   with_both = FindForJob({"workers.count=4", kListOfTwoServers});
  ASSERT_THAT(with_workers.checkpoints, SizeIs(1));
  EXPECT_EQ(with_workers.checkpoints[0].workers(), 2u);
  EXPECT_FALSE(with_workers.checkpoints[0].has_shards());
  EXPECT_EQ(with_workers.prepared_run, 7u);
  ASSERT_THAT(with_both.checkpoints, SizeIs(1));
  EXPECT_EQ(with_both.checkpoints[0].workers(), 2u);
  EXPECT_EQ(with_both.checkpoints[0].shards(), 1u);
  EXPECT_THAT(FindForJob({"workers.count=4", "seed=2"}).unfit.sentence(),
              HasSubstr("of another job: seed was 1, is now 2"));
}

TEST_F(FindSavedTest, NamesTheSizeWhereItMustNotChange) {
  const std::string central = "train.parameters=central", asgd = "train.algorithm=asgd";
  WriteCheckpoints({central}, {10});
  const protocol::SavedCheckpoints saved = FindForJob({central, kListOfTwoServers});
  EXPECT_TRUE(saved.unfit.other_job());
  EXPECT_THAT(saved.unfit.sentence(), HasSubstr("servers was a list of 1, is now a list of 2"));
  EXPECT_THAT(FindForJob({central, "workers.count=4"}).checkpoints, SizeIs(1));
  fs::remove_all(FolderPath());
  WriteCheckpoints({asgd}, {10});
  EXPECT_THAT(FindForJob({asgd, "workers.count=4"}).unfit.sentence(),
              HasSubstr("of another job: workers.count was 2, is now 4"));
}

// What is dropped if a job goes on with these changes.
TEST_F(FindSavedTest, SaysWhatAnotherSizeDrops) {
  const auto changes_from = [&](std::vector<std::string> settings,
                                const std::vector<std::string>& changed) {
    fs::remove_all(FolderPath());
    WriteCheckpoints(settings, {10});
    settings.insert(settings.end(), changed.begin(), changed.end());
    auto setup = SmallSetup(settings);
    setup->job.set_output_dir(dir_);
    return ChangesSinceLastRun(*setup);
  };
  EXPECT_EQ(changes_from({}, {"workers.count=4"}), "workers.count was 2, is now 4");
  EXPECT_EQ(
      changes_from({"exchange.codec=topk"}, {"workers.count=4"}),
      "workers.count was 2, is now 4; dropped: what each worker had of its own (local weights "
      "and optimizer, codecs' memories)");
  EXPECT_THAT(changes_from({"exchange.codec=onebit"}, {kListOfTwoServers}),
              HasSubstr("; dropped: what the servers' codecs lost of earlier sums"));
  EXPECT_THAT(changes_from({"exchange.codec=topk"}, {kListOfTwoServers}),
              Not(HasSubstr("dropped")));
  EXPECT_THAT(changes_from({"data.partition=by_sample"}, {"workers.count=4"}),
              HasSubstr("; each worker draws from other images than before: of the epoch in "
                        "progress some images may be drawn twice, others not at all"));
  EXPECT_THAT(changes_from({"faults.on_worker_loss=shrink", "workers.max=4"}, {"workers.max=8"}),
              HasSubstr("epochs are counted as if every step had had 256 samples (128 before)"));
}

TEST_F(FindSavedTest, NamesTheDigestIfTheOtherJobIsUnknown) {
  WriteCheckpoints({}, {10});
  fs::remove(FolderPath() + "/run.json");
  const protocol::SavedCheckpoints saved = FindForJob({"seed=2"});
  EXPECT_TRUE(saved.unfit.other_job());
  EXPECT_THAT(saved.unfit.sentence(), HasSubstr("it is of a job with other settings (digest "));
}

TEST_F(FindSavedTest, ReportsDamagedCheckpointsAsDamaged) {
  WriteCheckpoints({}, {10, 20});
  for (const int step : {10, 20})
    fs::resize_file(Cat(FolderPath(), "/step.", step, ".safetensors"), 50);
  const protocol::SavedCheckpoints saved = FindForJob({});
  EXPECT_THAT(saved.checkpoints, SizeIs(0));
  EXPECT_EQ(saved.prepared_run, 7u);
  EXPECT_FALSE(saved.unfit.other_job());
  EXPECT_THAT(saved.unfit.sentence(),
              HasSubstr(" has checkpoints up to step 20, which are damaged: its size in bytes"));
}

// There is a file in place of the folder, because reading it as a folder fails even for root.
TEST_F(FindSavedTest, ReportsAFolderThatCannotBeRead) {
  fs::create_directories(dir_ + "/checkpoints");
  std::ofstream(FolderPath()) << "no folder";
  const protocol::SavedCheckpoints saved = FindForJob({});
  EXPECT_FALSE(saved.unfit.other_job());
  EXPECT_EQ(saved.unfit.sentence(), FolderPath() + ": the folder cannot be read: Not a directory");
}

TEST_F(FindSavedTest, FindsNothingInAMissingFolder) {
  const protocol::SavedCheckpoints saved = FindForJob({});
  EXPECT_THAT(saved.checkpoints, SizeIs(0));
  EXPECT_EQ(saved.prepared_run, 0u);
  EXPECT_FALSE(saved.unfit.has_sentence());
}

// With backup workers, a slow worker may be 17 rounds behind the others.
TEST(NumCheckpointsToKeep, ReachesBackToTheSlowestWorker) {
  const auto number_for = [](const std::vector<std::string>& overrides) {
    return NumCheckpointsToKeep(*SmallSetup(overrides));
  };
  EXPECT_EQ(number_for({"checkpoints.every_steps=0"}), 0u);
  EXPECT_EQ(number_for({"checkpoints.every_steps=5"}), 2u);
  EXPECT_EQ(number_for({"checkpoints.every_steps=5", "checkpoints.keep=9"}), 9u);
  const std::string backup = "train.ssgd.backup_workers=1";
  EXPECT_EQ(number_for({"checkpoints.every_steps=5", backup}), 6u);
  EXPECT_EQ(number_for({"checkpoints.every_steps=1", backup}), 19u);
  EXPECT_EQ(number_for({"checkpoints.every_steps=100", backup}), 3u);
  EXPECT_EQ(number_for({"checkpoints.every_steps=5", "checkpoints.keep=9", backup}), 9u);
}

}  // namespace
}  // namespace tern::setup
