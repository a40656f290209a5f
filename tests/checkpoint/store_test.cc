#include "common/checkpoint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/text.h"
#include "common/checkpoint/saved.h"

namespace tern::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    folder_ = testing::TempDir() + "tern_store_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    owner_ = {folder_ + "/checkpoints/worker.0", "worker.0", 2, 11, 12, 13};
  }
  ~StoreTest() override { fs::remove_all(folder_); }

  Store MakeStore(uint32_t keep = 2) { return {owner_, keep}; }
  static Status Write(Store& store, uint64_t step, uint64_t run = 7) {
    const std::vector<float> values(100, static_cast<float>(step));
    return store.Write({run, step, step}, {{"weights", {10, 10}, values}}, {{"a", "b"}});
  }
  std::string Path(uint64_t step, const std::string& ending) const {
    return Cat(owner_.folder, "/step.", step, ending);
  }
  static std::string ReadAll(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static void WriteAll(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  std::string folder_;
  Owner owner_;
};

TEST_F(StoreTest, GivesBackWhatWasWritten) {
  Store store = MakeStore();
  ASSERT_TRUE(Write(store, 10).ok());
  Store again = MakeStore();
  EXPECT_THAT(again.Open(), IsEmpty());
  ASSERT_THAT(again.points(), ElementsAre(Point{7, 10, 10}));
  const auto file = again.Read({7, 10, 10});
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors.at(0).values, std::vector<float>(100, 10.f));
  EXPECT_EQ(file->metadata.at("a"), "b");
}

TEST_F(StoreTest, KeepsTheNewestOnly) {
  Store store = MakeStore(3);
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(Write(store, step).ok());
  EXPECT_THAT(store.points(), ElementsAre(Point{7, 3, 3}, Point{7, 4, 4}, Point{7, 5, 5}));
  EXPECT_FALSE(fs::exists(Path(2, ".json")));
  EXPECT_FALSE(fs::exists(Path(2, ".safetensors")));
}

TEST_F(StoreTest, RefusesWhateverByteWasChangedAndHasTheOneBefore) {
  Store store = MakeStore();
  ASSERT_TRUE(Write(store, 1).ok());
  ASSERT_TRUE(Write(store, 2).ok());
  for (const std::string ending : {".safetensors", ".json"}) {
    const std::string bytes = ReadAll(Path(2, ending));
    for (size_t at = 0; at < bytes.size(); at += ending == ".json" ? 1 : 7) {
      if (ending == ".json" && std::isspace(bytes[at])) continue;  // says nothing
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      WriteAll(Path(2, ending), changed);
      Store again = MakeStore();
      EXPECT_THAT(again.Open(), SizeIs(1)) << ending << " byte " << at;
      EXPECT_THAT(again.points(), ElementsAre(Point{7, 1, 1})) << ending << " byte " << at;
      EXPECT_FALSE(again.Read({7, 2, 2}).ok());
    }
    WriteAll(Path(2, ending), bytes);
  }
}

TEST_F(StoreTest, RefusesWhateverWasCutOffAndHasTheOneBefore) {
  Store store = MakeStore();
  ASSERT_TRUE(Write(store, 1).ok());
  ASSERT_TRUE(Write(store, 2).ok());
  for (const std::string ending : {".safetensors", ".json"}) {
    const std::string bytes = ReadAll(Path(2, ending));
    for (size_t size = 0; size < bytes.size(); size += 13) {
      WriteAll(Path(2, ending), bytes.substr(0, size));
      Store again = MakeStore();
      EXPECT_THAT(again.Open(), SizeIs(1));
      EXPECT_THAT(again.points(), ElementsAre(Point{7, 1, 1})) << ending << " " << size;
    }
    WriteAll(Path(2, ending), bytes + "x");
    Store again = MakeStore();
    EXPECT_THAT(again.Open(), SizeIs(1));
    WriteAll(Path(2, ending), bytes);
  }
}

TEST_F(StoreTest, SaysWhyAnothersAreNotUsed) {
  Store store = MakeStore();
  ASSERT_TRUE(Write(store, 1).ok());
  const Owner mine = owner_;
  const auto sentence = [&] {
    Store other = MakeStore();
    const auto sentences = other.Open();
    EXPECT_THAT(other.points(), IsEmpty());
    owner_ = mine;
    return sentences.empty() ? std::string() : sentences[0];
  };
  owner_.job_digest = 99;
  EXPECT_THAT(sentence(), HasSubstr("a job with other settings"));
  owner_.model_digest = 99;
  EXPECT_THAT(sentence(), HasSubstr("its model digest is 000000000000000c"));
  owner_.plan_digest = 99;
  EXPECT_THAT(sentence(), HasSubstr("its plan digest is"));
  owner_.workers = 3;
  EXPECT_THAT(sentence(), HasSubstr("its number of workers is 2, expected 3"));
  owner_.name = "worker.1";
  EXPECT_THAT(sentence(), HasSubstr("its owner is worker.0, expected worker.1"));
}

TEST_F(StoreTest, RemovesWhatWasHalfWritten) {
  Store store = MakeStore();
  ASSERT_TRUE(Write(store, 1).ok());
  WriteAll(Path(2, ".safetensors.tmp.4711"), "half");
  WriteAll(Path(3, ".safetensors"), "without a manifest");
  Store again = MakeStore();
  EXPECT_THAT(again.Open(), IsEmpty());
  EXPECT_FALSE(fs::exists(Path(2, ".safetensors.tmp.4711")));
  EXPECT_FALSE(fs::exists(Path(3, ".safetensors")));
  EXPECT_THAT(again.points(), ElementsAre(Point{7, 1, 1}));
}

TEST_F(StoreTest, PutsAsideWhatIsOfAnotherRun) {
  Store store = MakeStore();
  EXPECT_FALSE(store.SetAside());
  ASSERT_TRUE(Write(store, 100).ok());
  EXPECT_TRUE(store.SetAside());
  EXPECT_THAT(store.points(), IsEmpty());
  EXPECT_TRUE(fs::exists(owner_.folder + ".before/step.100.json"));
  ASSERT_TRUE(Write(store, 50, 8).ok());
  EXPECT_TRUE(store.SetAside());
  EXPECT_TRUE(fs::exists(owner_.folder + ".before/step.50.json"));
  EXPECT_FALSE(fs::exists(owner_.folder + ".before/step.100.json"));
}

TEST_F(StoreTest, RemovesWhatCameAfterThePointThatAJobGoesOnFrom) {
  Store store = MakeStore(5);
  for (uint64_t step = 1; step <= 4; ++step) ASSERT_TRUE(Write(store, step).ok());
  store.RemoveAfter({7, 2, 2});
  EXPECT_THAT(store.points(), ElementsAre(Point{7, 1, 1}, Point{7, 2, 2}));
  EXPECT_FALSE(fs::exists(Path(3, ".json")));
}

TEST_F(StoreTest, KeepsWhatItHasWhereTheFolderCannotBeWritten) {
  Store store = MakeStore();
  ASSERT_TRUE(Write(store, 1).ok());
  ASSERT_TRUE(Write(store, 2).ok());
  // A folder in the place of the file: root, too, is refused.
  fs::create_directories(Path(3, ".safetensors") + "/x");
  const Status refused = Write(store, 3);
  EXPECT_EQ(refused.code(), Code::kCannotWrite);
  EXPECT_THAT(refused.message(), HasSubstr("step.3.safetensors"));
  EXPECT_THAT(store.points(), ElementsAre(Point{7, 1, 1}, Point{7, 2, 2}));
  WriteAll(folder_ + "/file", "");
  owner_.folder = folder_ + "/file/checkpoints";
  Store nowhere = MakeStore();
  EXPECT_THAT(Write(nowhere, 1).message(), HasSubstr("cannot create the folder"));
}

TEST_F(StoreTest, NamesWhatAStateDoesNotHave) {
  std::vector<float> values = {1, 2};
  uint64_t number = 5;
  SavedState state{{{"residual", values}}, {{"clock", &number}}};
  std::vector<models::TensorView> tensors;
  models::Metadata metadata;
  AddSaved(state, &tensors, &metadata);
  Store store = MakeStore();
  ASSERT_TRUE(store.Write({7, 1, 1}, tensors, metadata).ok());
  const auto file = store.Read({7, 1, 1});
  ASSERT_TRUE(file.ok());
  values = {0, 0};
  number = 0;
  EXPECT_TRUE(Restore(*file, state).ok());
  EXPECT_THAT(values, ElementsAre(1, 2));
  EXPECT_EQ(number, 5u);
  std::vector<float> more(3);
  EXPECT_THAT(Restore(*file, {{{"residual", more}}, {}}).message(),
              HasSubstr("no residual of 3 values"));
  EXPECT_THAT(Restore(*file, {{}, {{"other", &number}}}).message(), HasSubstr("no number other"));
}

}  // namespace
}  // namespace tern::checkpoint
