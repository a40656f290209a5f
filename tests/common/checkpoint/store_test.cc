// Tests of Store, which writes checkpoints of one owner (a worker, or a lane: a thread of a server
// shard) to a folder, keeps the newest, and finds complete ones again. A run is one execution of a
// job, identified by a number; Point{run, step, round} names a checkpoint.
#include "common/checkpoint/store.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/hash.h"
#include "common/base/text.h"
#include "common/checkpoint/saved.h"

namespace tern::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const auto kNow = std::chrono::system_clock::from_time_t(1795386361);  // 2026-11-22T22:26:01Z

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    folder_ = testing::TempDir() + "tern_store_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    owner_ = {folder_ + "/checkpoints/worker.0", "worker.0", 2, 11, 12, 13, "seed: 1"};
  }
  ~StoreTest() override { fs::remove_all(folder_); }

  Store MakeStore(uint32_t num_kept_of_all = 2, uint32_t num_kept_of_shard = 0) {
    return {owner_, {num_kept_of_all, num_kept_of_shard}};
  }
  static Status WriteCheckpoint(Store& store, uint64_t step, uint64_t run = 7,
                                Kind kind = Kind::kOfAll) {
    const std::vector<float> values(100, static_cast<float>(step));
    return store.Write({run, step, step}, kind, {{"weights", {10, 10}, values}}, {{"a", "b"}});
  }
  // Begins a run. Returns the sentence that tells which checkpoints were moved away; empty if none.
  static std::string BeginRun(Store& store, uint64_t run, bool anew = false) {
    const auto begin_result = store.Begin(run, anew, kNow);
    EXPECT_TRUE(begin_result.ok()) << begin_result.status().message();
    return begin_result.ok() ? *begin_result : "";
  }
  // The number of bytes of all checkpoints in the folder.
  static uint64_t CheckpointBytesIn(const std::string& folder) {
    uint64_t num_bytes = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with("step.")) num_bytes += entry.file_size();
    }
    return num_bytes;
  }
  std::string CheckpointPath(uint64_t step, const std::string& ending) const {
    return Cat(owner_.folder, "/step.", step, ending);
  }
  static std::string ReadFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
  }
  static void WriteFile(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  std::string folder_;
  Owner owner_;
};

TEST_F(StoreTest, ReadsWhatWasWritten) {
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 10).ok());
  Store reopened = MakeStore();
  EXPECT_THAT(reopened.Open(), IsEmpty());
  ASSERT_THAT(reopened.points(), ElementsAre(Point{7, 10, 10}));
  const auto file = reopened.Read({7, 10, 10});
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors.at(0).values, std::vector<float>(100, 10.f));
  EXPECT_EQ(file->metadata.at("a"), "b");
}

TEST_F(StoreTest, KnowsTheHashOfTheWeightsInACheckpoint) {
  const std::vector<float> values(100, 1.f);
  Store store = MakeStore();
  ASSERT_TRUE(store.Write({7, 10, 10, 0xabc}, Kind::kOfAll, {{"w", {100}, values}}, {}).ok());
  ASSERT_TRUE(WriteCheckpoint(store, 20).ok());
  Store reopened = MakeStore();
  EXPECT_THAT(reopened.Open(), IsEmpty());
  for (const Store* each : {&store, &reopened}) {
    ASSERT_THAT(each->points(), SizeIs(2));
    EXPECT_EQ(each->points()[0].weights_hash, 0xabcu);
    EXPECT_EQ(each->points()[1].weights_hash, 0u);
  }
}

TEST_F(StoreTest, KeepsOnlyTheNewest) {
  Store store = MakeStore(3);
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(WriteCheckpoint(store, step).ok());
  EXPECT_THAT(store.points(), ElementsAre(Point{7, 3, 3}, Point{7, 4, 4}, Point{7, 5, 5}));
  EXPECT_FALSE(fs::exists(CheckpointPath(2, ".json")));
  EXPECT_FALSE(fs::exists(CheckpointPath(2, ".safetensors")));
}

TEST_F(StoreTest, RefusesACheckpointWithAnyByteChangedAndKeepsThePreviousOne) {
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 1).ok());
  ASSERT_TRUE(WriteCheckpoint(store, 2).ok());
  for (const std::string ending : {".safetensors", ".json"}) {
    const std::string bytes = ReadFile(CheckpointPath(2, ending));
    for (size_t at = 0; at < bytes.size(); at += ending == ".json" ? 1 : 7) {
      // White space may change in a manifest (the .json file, which completes a checkpoint).
      if (ending == ".json" && std::isspace(bytes[at])) continue;
      std::string changed_bytes = bytes;
      changed_bytes[at] = static_cast<char>(changed_bytes[at] ^ 1);
      WriteFile(CheckpointPath(2, ending), changed_bytes);
      Store reopened = MakeStore();
      EXPECT_THAT(reopened.Open(), SizeIs(1)) << ending << " byte " << at;
      EXPECT_THAT(reopened.points(), ElementsAre(Point{7, 1, 1})) << ending << " byte " << at;
      EXPECT_FALSE(reopened.Read({7, 2, 2}).ok());
    }
    WriteFile(CheckpointPath(2, ending), bytes);
  }
}

TEST_F(StoreTest, RefusesATruncatedCheckpointAndKeepsThePreviousOne) {
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 1).ok());
  ASSERT_TRUE(WriteCheckpoint(store, 2).ok());
  for (const std::string ending : {".safetensors", ".json"}) {
    const std::string bytes = ReadFile(CheckpointPath(2, ending));
    for (size_t size = 0; size < bytes.size(); size += 13) {
      WriteFile(CheckpointPath(2, ending), bytes.substr(0, size));
      Store reopened = MakeStore();
      EXPECT_THAT(reopened.Open(), SizeIs(1));
      EXPECT_THAT(reopened.points(), ElementsAre(Point{7, 1, 1})) << ending << " " << size;
    }
    WriteFile(CheckpointPath(2, ending), bytes + "x");
    Store reopened = MakeStore();
    EXPECT_THAT(reopened.Open(), SizeIs(1));
    WriteFile(CheckpointPath(2, ending), bytes);
  }
}

TEST_F(StoreTest, SaysWhyCheckpointsOfAnotherOwnerAreNotUsed) {
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 1).ok());
  const Owner original_owner = owner_;
  const auto refusal_sentence = [&] {
    Store other_store = MakeStore();
    const auto sentences = other_store.Open();
    EXPECT_THAT(other_store.points(), IsEmpty());
    owner_ = original_owner;
    return sentences.empty() ? std::string() : sentences[0];
  };
  owner_.job_digest = 99;
  EXPECT_THAT(refusal_sentence(), HasSubstr("a job with other settings"));
  owner_.model_digest = 99;
  EXPECT_THAT(refusal_sentence(), HasSubstr("its model digest is 000000000000000c"));
  owner_.plan_digest = 99;
  EXPECT_THAT(refusal_sentence(), HasSubstr("its plan digest is"));
  owner_.workers = 3;
  EXPECT_THAT(refusal_sentence(), HasSubstr("its number of workers is 2, expected 3"));
  owner_.name = "worker.1";
  EXPECT_THAT(refusal_sentence(), HasSubstr("its owner is worker.0, expected worker.1"));
}

TEST_F(StoreTest, RefusesACheckpointUnderTheNameOfAnotherStep) {
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 10).ok());
  for (const char* ending : {".safetensors", ".json"})
    fs::copy_file(CheckpointPath(10, ending), CheckpointPath(20, ending));
  Store reopened = MakeStore();
  EXPECT_THAT(reopened.Open(), ElementsAre(HasSubstr("its step is 10, expected 20")));
  EXPECT_THAT(reopened.points(), ElementsAre(Point{7, 10, 10}));
}

TEST_F(StoreTest, ReadsNoCheckpointOfAnotherRunOrRound) {
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 10).ok());
  EXPECT_THAT(store.Read({8, 10, 10}).status().message(), HasSubstr("its run is "));
  EXPECT_THAT(store.Read({7, 10, 11}).status().message(),
              HasSubstr("its round is 10, expected 11"));
}

// The keys that checkpoints.accept names may have changed since the checkpoints of the run that
// goes on were written, but a folder may have checkpoints of runs before it.
TEST_F(StoreTest, AcceptsOtherSettingsInTheRecordedRunOnly) {
  Store before = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(before, 5, 6).ok());
  ASSERT_TRUE(WriteCheckpoint(before, 10, 7).ok());
  owner_.job_digest = 21;
  owner_.is_same_job = [](const std::string&) { return true; };
  Store after = MakeStore();
  EXPECT_THAT(after.Open(), ElementsAre(HasSubstr("it is of a job with other settings")));
  EXPECT_THAT(after.points(), ElementsAre(Point{7, 10, 10}));
}

TEST_F(StoreTest, RemovesIncompleteFiles) {
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 1).ok());
  const std::string temporary_path = CheckpointPath(2, ".safetensors.tmp.0123456789abcdef");
  WriteFile(temporary_path, "half");
  WriteFile(CheckpointPath(3, ".safetensors"), "without a manifest");
  Store reopened = MakeStore();
  EXPECT_THAT(reopened.Open(), IsEmpty());
  EXPECT_FALSE(fs::exists(temporary_path));
  EXPECT_FALSE(fs::exists(CheckpointPath(3, ".safetensors")));
  EXPECT_THAT(reopened.points(), ElementsAre(Point{7, 1, 1}));
}

TEST_F(StoreTest, MovesCheckpointsOfAnotherRunToAFolderWithTheDateAndReportsIt) {
  Store store = MakeStore();
  EXPECT_EQ(BeginRun(store, 7), "");
  ASSERT_TRUE(WriteCheckpoint(store, 90).ok());
  ASSERT_TRUE(WriteCheckpoint(store, 100).ok());
  const uint64_t bytes = CheckpointBytesIn(owner_.folder);
  const std::string sentence = BeginRun(store, 8);
  EXPECT_THAT(store.points(), IsEmpty());
  EXPECT_FALSE(fs::exists(CheckpointPath(100, ".json")));
  const std::string dated_folder = owner_.folder + ".2026-11-22T22-26-01";
  for (const char* name : {"step.90.json", "step.90.safetensors", "step.100.json", "run.json"})
    EXPECT_TRUE(fs::exists(Cat(dated_folder, "/", name))) << name;
  EXPECT_THAT(sentence, HasSubstr(dated_folder));
  EXPECT_THAT(sentence, HasSubstr(": 2, the newest of step 100"));
  EXPECT_THAT(sentence, HasSubstr(HumanBytes(bytes)));
}

TEST_F(StoreTest, KeepsAllMovedCheckpointsEvenWithinOneSecond) {
  for (uint64_t run = 1; run <= 4; ++run) {
    Store store = MakeStore();
    store.Open();
    BeginRun(store, run);
    ASSERT_TRUE(WriteCheckpoint(store, 10 * run, run).ok());
  }
  const std::string dated_folder = owner_.folder + ".2026-11-22T22-26-01";
  EXPECT_TRUE(fs::exists(dated_folder + "/step.10.json"));
  EXPECT_TRUE(fs::exists(dated_folder + ".2/step.20.json"));
  EXPECT_TRUE(fs::exists(dated_folder + ".3/step.30.json"));
  EXPECT_TRUE(fs::exists(CheckpointPath(40, ".json")));
}

TEST_F(StoreTest, ARunThatStartsAgainKeepsItsOldCheckpointsToo) {
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 10).ok());
  EXPECT_NE(BeginRun(store, 7, true), "");
  EXPECT_THAT(store.points(), IsEmpty());
  EXPECT_TRUE(fs::exists(owner_.folder + ".2026-11-22T22-26-01/step.10.safetensors"));
  EXPECT_EQ(BeginRun(store, 7, true), "") << "nothing is left to be moved";
}

// A run continues from its checkpoints. Those of other runs, and damaged ones, are moved to another
// folder.
TEST_F(StoreTest, ARunThatContinuesKeepsItsCheckpointsInPlaceAndMovesAllOthers) {
  Store store = MakeStore(6);
  for (uint64_t step = 10; step <= 40; step += 10) ASSERT_TRUE(WriteCheckpoint(store, step).ok());
  ASSERT_TRUE(WriteCheckpoint(store, 50, 8).ok());
  ASSERT_TRUE(WriteCheckpoint(store, 60).ok());
  WriteFile(CheckpointPath(30, ".safetensors"), "damaged");
  WriteFile(CheckpointPath(40, ".json"), "damaged");
  fs::remove(CheckpointPath(60, ".safetensors"));
  Store reopened = MakeStore(6);
  reopened.Open();
  EXPECT_THAT(BeginRun(reopened, 7), HasSubstr(": 4, the newest of step 60"));
  EXPECT_THAT(reopened.points(), ElementsAre(Point{7, 10, 10}, Point{7, 20, 20}));
  EXPECT_THAT(reopened.refused_checkpoints(), IsEmpty());
  const std::string dated_folder = owner_.folder + ".2026-11-22T22-26-01/step.";
  for (const char* name : {"30.json", "30.safetensors", "40.json", "40.safetensors", "50.json",
                           "50.safetensors", "60.json"}) {
    EXPECT_TRUE(fs::exists(dated_folder + name)) << name;
    EXPECT_FALSE(fs::exists(Cat(owner_.folder, "/step.", name))) << name;
  }
}

// The folder's name is so long that no date can be appended. So the move fails, even for root.
TEST_F(StoreTest, RemovesNothingThatCannotBeMoved) {
  owner_.folder = folder_ + "/" + std::string(250, 'w');
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 10).ok());
  const auto begin_result = store.Begin(8, true, kNow);
  ASSERT_FALSE(begin_result.ok());
  EXPECT_EQ(begin_result.status().code(), Code::kCannotWrite);
  EXPECT_THAT(begin_result.status().message(), HasSubstr("File name too long"));
  EXPECT_THAT(begin_result.status().message(), HasSubstr("still there"));
  EXPECT_TRUE(fs::exists(CheckpointPath(10, ".json")));
  EXPECT_TRUE(fs::exists(CheckpointPath(10, ".safetensors")));
}

// When the job was interrupted, the other workers may not have written their checkpoints of step 3.
TEST_F(StoreTest, RemovesACheckpointAfterThePointFromWhichARunContinues) {
  Store store = MakeStore(5);
  for (uint64_t step = 1; step <= 3; ++step) ASSERT_TRUE(WriteCheckpoint(store, step).ok());
  ASSERT_TRUE(WriteCheckpoint(store, 5, 8).ok());
  EXPECT_EQ(*store.RemoveAfter({7, 2, 2}, kNow), "");
  EXPECT_THAT(store.points(), ElementsAre(Point{7, 1, 1}, Point{7, 2, 2}, Point{8, 5, 5}));
  EXPECT_FALSE(fs::exists(CheckpointPath(3, ".json")));
  EXPECT_TRUE(fs::exists(CheckpointPath(5, ".json"))) << "it is of another run";
}

// Another worker has lost its checkpoints of the steps 3 and 4, which all had written.
TEST_F(StoreTest, KeepsSeveralCheckpointsAfterThePointFromWhichARunContinues) {
  Store store = MakeStore(5);
  BeginRun(store, 7);
  for (uint64_t step = 1; step <= 4; ++step) ASSERT_TRUE(WriteCheckpoint(store, step).ok());
  EXPECT_THAT(*store.RemoveAfter({7, 2, 2}, kNow), HasSubstr(": 2, the newest of step 4"));
  EXPECT_THAT(store.points(), ElementsAre(Point{7, 1, 1}, Point{7, 2, 2}));
  const std::string dated_folder = owner_.folder + ".2026-11-22T22-26-01/step.";
  for (const char* name : {"3.json", "3.safetensors", "4.json", "4.safetensors"}) {
    EXPECT_TRUE(fs::exists(dated_folder + name)) << name;
    EXPECT_FALSE(fs::exists(Cat(owner_.folder, "/step.", name))) << name;
  }
  EXPECT_NE(*store.RemoveAfter({7, 0, 0}, kNow), "");
  EXPECT_THAT(store.points(), IsEmpty());
  EXPECT_EQ(store.own_recorded_run(), 7u) << "run.json was moved, too, and is written again";
  EXPECT_TRUE(fs::exists(owner_.folder + "/run.json"));
}

TEST_F(StoreTest, RecordsTheRunAndItsJobBeforeTheFirstCheckpoint) {
  Store store = MakeStore();
  BeginRun(store, 7);
  Store reopened = MakeStore();
  EXPECT_THAT(reopened.Open(), IsEmpty());
  EXPECT_EQ(reopened.own_recorded_run(), 7u);
  EXPECT_EQ(reopened.JobTextOf(7), "seed: 1");
  EXPECT_EQ(reopened.JobTextOf(8), "");
  owner_.job_digest = 99;
  owner_.job_text = "seed: 2";
  Store other_store = MakeStore();
  other_store.Open();
  EXPECT_EQ(other_store.own_recorded_run(), 0u) << "the run was of another job";
  EXPECT_EQ(other_store.JobTextOf(7), "seed: 1");
  BeginRun(other_store, 9);
  EXPECT_EQ(other_store.own_recorded_run(), 9u);
  EXPECT_EQ(other_store.JobTextOf(9), "seed: 2");
}

TEST_F(StoreTest, DistinguishesDamagedCheckpointsFromThoseOfOtherOwners) {
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 1).ok());
  ASSERT_TRUE(WriteCheckpoint(store, 2).ok());
  WriteFile(CheckpointPath(1, ".json"), "{");
  owner_.job_digest = 99;
  Store other_store = MakeStore();
  EXPECT_THAT(other_store.Open(), SizeIs(2));
  ASSERT_THAT(other_store.refused_checkpoints(), SizeIs(2));
  EXPECT_EQ(other_store.refused_checkpoints()[0].step, 1u);
  EXPECT_FALSE(other_store.refused_checkpoints()[0].is_foreign);
  EXPECT_EQ(other_store.refused_checkpoints()[1].step, 2u);
  EXPECT_TRUE(other_store.refused_checkpoints()[1].is_foreign);
  EXPECT_EQ(other_store.refused_checkpoints()[1].run, 7u);
}

TEST_F(StoreTest, RemovesNoFilesButItsOwn) {
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 1).ok());
  const std::vector<std::string> names = {
      "step.last.safetensors",      "step..safetensors",
      "step.2.old.safetensors",     "x.tmp.123",
      "notes.tmp.0123456789abcdef", "step.2.safetensors.tmp.123"};
  for (const std::string& name : names) WriteFile(owner_.folder + "/" + name, "theirs");
  EXPECT_THAT(MakeStore().Open(), IsEmpty());
  for (const std::string& name : names) EXPECT_TRUE(fs::exists(owner_.folder + "/" + name)) << name;
}

// The manifest is the small file that completes a checkpoint. A folder with the manifest's name
// makes the write fail, even for root.
TEST_F(StoreTest, RemovesTheStateIfTheManifestCannotBeWritten) {
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 1).ok());
  fs::create_directories(CheckpointPath(2, ".json") + "/x");
  EXPECT_FALSE(WriteCheckpoint(store, 2).ok());
  EXPECT_FALSE(fs::exists(CheckpointPath(2, ".safetensors")));
  EXPECT_THAT(store.points(), ElementsAre(Point{7, 1, 1}));
}

TEST_F(StoreTest, KeepsItsCheckpointsIfTheFolderCannotBeWritten) {
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 1).ok());
  ASSERT_TRUE(WriteCheckpoint(store, 2).ok());
  // A folder with the .safetensors file's name makes the write fail, even for root.
  fs::create_directories(CheckpointPath(3, ".safetensors") + "/x");
  const Status write_status = WriteCheckpoint(store, 3);
  EXPECT_EQ(write_status.code(), Code::kCannotWrite);
  EXPECT_THAT(write_status.message(), HasSubstr("step.3.safetensors"));
  EXPECT_THAT(store.points(), ElementsAre(Point{7, 1, 1}, Point{7, 2, 2}));
  WriteFile(folder_ + "/file", "");
  owner_.folder = folder_ + "/file/checkpoints";
  Store store_below_a_file = MakeStore();
  EXPECT_THAT(WriteCheckpoint(store_below_a_file, 1).message(),
              HasSubstr("cannot create the folder"));
}

TEST_F(StoreTest, MakesAFolderAgainThatSomebodyHasRemoved) {
  Store store = MakeStore(3);
  for (const uint64_t step : {10, 20}) ASSERT_TRUE(WriteCheckpoint(store, step).ok());
  fs::remove_all(folder_ + "/checkpoints");
  const Status write_status = WriteCheckpoint(store, 30);
  EXPECT_TRUE(write_status.ok()) << write_status.message();
  EXPECT_THAT(store.points(), ElementsAre(Point{7, 30, 30})) << "the others are gone";
  Store reopened = MakeStore(3);
  EXPECT_THAT(reopened.Open(), IsEmpty());
  EXPECT_THAT(reopened.points(), ElementsAre(Point{7, 30, 30}));
  EXPECT_EQ(reopened.own_recorded_run(), 7u);
}

TEST_F(StoreTest, NamesAMissingArrayOrNumber) {
  std::vector<float> values = {1, 2};
  uint64_t number = 5;
  SavedState saved_state{{{"residual", values}}, {{"clock", &number}}};
  std::vector<tensors::TensorView> tensors;
  tensors::Metadata metadata;
  AddSavedState(saved_state, &tensors, &metadata);
  Store store = MakeStore();
  ASSERT_TRUE(store.Write({7, 1, 1}, Kind::kOfAll, tensors, metadata).ok());
  const auto file = store.Read({7, 1, 1});
  ASSERT_TRUE(file.ok());
  values = {0, 0};
  number = 0;
  EXPECT_TRUE(RestoreState(*file, saved_state).ok());
  EXPECT_THAT(values, ElementsAre(1, 2));
  EXPECT_EQ(number, 5u);
  std::vector<float> longer_values(3);
  EXPECT_THAT(RestoreState(*file, {{{"residual", longer_values}}, {}}).message(),
              HasSubstr("no residual of 3 values"));
  EXPECT_THAT(RestoreState(*file, {{}, {{"other", &number}}}).message(),
              HasSubstr("no number other"));
}

// A checkpoint is of kind kOfAll if all daemons (workers and shards) write one after its step, of
// kind kShard if only shards do.
TEST_F(StoreTest, KeepsTheTwoKindsApart) {
  const auto describe_points = [](const Store& store) {
    std::vector<std::string> descriptions;
    for (const Point& point : store.points())
      descriptions.push_back(Cat(point.step, store.KindOf(point) == Kind::kShard ? " shard" : ""));
    return descriptions;
  };
  Store store = MakeStore(2, 3);
  for (uint64_t step = 10; step <= 120; step += 10)
    ASSERT_TRUE(WriteCheckpoint(store, step, 7, step % 50 == 0 ? Kind::kOfAll : Kind::kShard).ok());
  EXPECT_THAT(describe_points(store),
              ElementsAre("50", "90 shard", "100", "110 shard", "120 shard"));
  Store reopened = MakeStore(2, 3);
  EXPECT_THAT(reopened.Open(), IsEmpty());
  EXPECT_EQ(describe_points(reopened), describe_points(store));
  // After the last step of a job, all daemons write a checkpoint. If this shard has already written
  // one after that step, that checkpoint's kind becomes kOfAll, and a later write as kShard does
  // not change the kind back.
  ASSERT_TRUE(WriteCheckpoint(reopened, 120).ok());
  ASSERT_TRUE(WriteCheckpoint(reopened, 120, 7, Kind::kShard).ok());
  EXPECT_THAT(describe_points(reopened), ElementsAre("90 shard", "100", "110 shard", "120"));
  Store reopened_twice = MakeStore(2, 3);
  EXPECT_THAT(reopened_twice.Open(), IsEmpty());
  EXPECT_EQ(describe_points(reopened_twice), describe_points(reopened));
  EXPECT_TRUE(reopened_twice.Read({7, 120, 120}).ok());
}

TEST_F(StoreTest, ReportsTheKindOfAnotherJobsCheckpoints) {
  Store store = MakeStore(2, 3);
  ASSERT_TRUE(WriteCheckpoint(store, 10, 7, Kind::kShard).ok());
  ASSERT_TRUE(WriteCheckpoint(store, 20).ok());
  owner_.job_digest ^= 1;
  Store other_store = MakeStore(2, 3);
  EXPECT_THAT(other_store.Open(), SizeIs(2));
  ASSERT_THAT(other_store.refused_checkpoints(), SizeIs(2));
  EXPECT_EQ(other_store.refused_checkpoints()[0].kind, Kind::kShard);
  EXPECT_EQ(other_store.refused_checkpoints()[1].kind, Kind::kOfAll);
}

TEST_F(StoreTest, WritesNothingIfNoKindIsKept) {
  Store store = MakeStore(0);
  EXPECT_EQ(BeginRun(store, 7), "");
  EXPECT_FALSE(fs::exists(owner_.folder));
}

// A toy in place of a keyed digest: 64 bits of a digest of the secret and everything.
TagFunction TagOf(const std::string& secret) {
  return [secret](std::string_view manifest, std::string_view state) {
    return Hex(Digest(Cat(secret, "|", manifest.size(), "|", manifest, state)));
  };
}

TEST_F(StoreTest, WithASecretReadsWhatWasWrittenWithIt) {
  owner_.tag_of = TagOf("secret");
  Store store = MakeStore(2, 2);
  BeginRun(store, 7);
  ASSERT_TRUE(WriteCheckpoint(store, 10).ok());
  ASSERT_TRUE(WriteCheckpoint(store, 11, 7, Kind::kShard).ok());
  ASSERT_TRUE(WriteCheckpoint(store, 11, 7, Kind::kOfAll).ok());  // only changes the kind
  Store reopened = MakeStore(2, 2);
  EXPECT_THAT(reopened.Open(), IsEmpty());
  EXPECT_THAT(reopened.points(), ElementsAre(Point{7, 10, 10}, Point{7, 11, 11}));
  EXPECT_EQ(reopened.KindOf({7, 11, 11}), Kind::kOfAll);
  EXPECT_EQ(reopened.own_recorded_run(), 7u);
  EXPECT_TRUE(reopened.Read({7, 11, 11}).ok());
}

TEST_F(StoreTest, WithASecretRefusesWhatWasWrittenWithoutIt) {
  for (const TagFunction& wrong_tag : {TagFunction(), TagOf("another secret")}) {
    owner_.tag_of = wrong_tag;
    Store store = MakeStore();
    BeginRun(store, 7, true);
    ASSERT_TRUE(WriteCheckpoint(store, 10).ok());
    owner_.tag_of = TagOf("secret");
    Store reopened = MakeStore();
    EXPECT_THAT(reopened.Open(), ElementsAre(testing::AllOf(
                                     HasSubstr("step.10.safetensors is not used: "),
                                     HasSubstr(wrong_tag ? "its tag is not" : "it has no tag"),
                                     HasSubstr("keys.checkpoint"))));
    EXPECT_THAT(reopened.points(), IsEmpty());
    EXPECT_EQ(reopened.own_recorded_run(), 0u);
    EXPECT_FALSE(reopened.Read({7, 10, 10}).ok());
  }
}

// Who can write the files, but does not have the secret, makes the digest and the checksum right.
TEST_F(StoreTest, WithASecretRefusesAStateOfSomebodyElse) {
  owner_.tag_of = TagOf("secret");
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 10).ok());
  const std::string tagged_manifest = ReadFile(CheckpointPath(10, ".json"));
  owner_.tag_of = nullptr;
  Store forger = MakeStore();
  const std::vector<float> values(100, 99.f);
  ASSERT_TRUE(forger.Write({7, 10, 10}, Kind::kOfAll, {{"weights", {10, 10}, values}}, {}).ok());
  // With the tag of the true checkpoint, too.
  pb::Manifest forged, tagged;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(ReadFile(CheckpointPath(10, ".json")), &forged)
          .ok());
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(tagged_manifest, &tagged).ok());
  forged.set_tag(tagged.tag());
  forged.clear_checksum();
  forged.set_checksum(Hex(Digest(std::string_view(forged.SerializeAsString()))));
  std::string forged_json;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(forged, &forged_json).ok());
  WriteFile(CheckpointPath(10, ".json"), forged_json);
  EXPECT_TRUE(MakeStore().Open().empty());  // without the secret, it is a checkpoint like others
  owner_.tag_of = TagOf("secret");
  Store reopened = MakeStore();
  EXPECT_THAT(reopened.Open(), ElementsAre(HasSubstr("its tag is not that of its bytes")));
}

TEST_F(StoreTest, WithoutASecretIgnoresTags) {
  owner_.tag_of = TagOf("secret");
  Store store = MakeStore();
  ASSERT_TRUE(WriteCheckpoint(store, 10).ok());
  owner_.tag_of = nullptr;
  Store reopened = MakeStore();
  EXPECT_THAT(reopened.Open(), IsEmpty());
  EXPECT_TRUE(reopened.Read({7, 10, 10}).ok());
}

}  // namespace
}  // namespace tern::checkpoint
