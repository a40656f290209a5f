// Tests which checkpoints a store takes of a job that now has another number of workers, or another
// layout (division of the model over server shards).
#include <gmock/gmock.h>

#include <filesystem>

#include "common/base/text.h"
#include "common/checkpoint/store.h"

namespace tern::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kRunOfSize = 7;

class OtherSize : public testing::Test {
 protected:
  OtherSize() {
    folder_ = testing::TempDir() + "tern_size_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    before_ = {.folder = folder_ + "/worker.0",
               .name = "worker.0",
               .workers = 4,
               .job_digest = 11,
               .model_digest = 12,
               .plan_digest = 13,
               .job_text = "before",
               .layout_digest = 14,
               .shards = 1};
    now_ = before_;
    now_.job_text = "now";
    now_.takes_other_workers = true;
    now_.other_layout = OtherLayout::kTaken;
  }
  ~OtherSize() override { fs::remove_all(folder_); }

  static void WriteAs(const Owner& owner, uint64_t step) {
    Store store(owner, {});
    store.Open();
    ASSERT_TRUE(store.Begin(kRunOfSize, false).ok());
    const std::vector<float> values(10, 1.f);
    ASSERT_TRUE(
        store.Write({kRunOfSize, step, step}, Kind::kOfAll, {{"w", {10}, values}}, {}).ok());
  }
  // What this owner's store has, opened anew.
  static Store OpenAs(const Owner& owner) {
    Store store(owner, {});
    store.Open();
    return store;
  }
  static std::string RefusalFor(const Owner& owner) {
    const Store store = OpenAs(owner);
    EXPECT_THAT(store.points(), IsEmpty());
    if (store.refused_checkpoints().size() != 1) return "";
    const RefusedCheckpoint& refused = store.refused_checkpoints()[0];
    return Cat(refused.is_foreign ? "foreign: " : "", refused.is_left_over ? "left over: " : "",
               refused.reason);
  }
  void SetWorkers(uint32_t workers) {
    now_.workers = workers;
    now_.plan_digest = 100 + workers;
  }
  void SetShards(uint32_t shards) {
    now_.shards = shards;
    now_.plan_digest = 200 + shards;
    now_.layout_digest = 300 + shards;
  }

  std::string folder_;
  Owner before_, now_;
};

TEST_F(OtherSize, IsToldOfCheckpointsThatAreTaken) {
  WriteAs(before_, 10);
  EXPECT_EQ(OpenAs(now_).points()[0].other_workers, 0u);
  EXPECT_FALSE(OpenAs(now_).points()[0].shards_of_other_layout.has_value());
  SetWorkers(6);
  Store store = OpenAs(now_);
  ASSERT_THAT(store.points(), SizeIs(1));
  EXPECT_EQ(store.points()[0].other_workers, 4u);
  EXPECT_FALSE(store.points()[0].shards_of_other_layout.has_value()) << "the layout is the same";
  EXPECT_EQ(store.own_recorded_run(), kRunOfSize);
  EXPECT_TRUE(store.Read(store.points()[0]).ok());
  ASSERT_TRUE(store.Begin(kRunOfSize, false).ok());
  EXPECT_TRUE(store.Read(store.points()[0]).ok()) << "run.json is of the job as it is now";
  WriteAs(now_, 20);
  const Store with_both = OpenAs(now_);
  ASSERT_THAT(with_both.points(), SizeIs(2));
  EXPECT_EQ(with_both.points()[0].other_workers, 4u);
  EXPECT_EQ(with_both.points()[1].other_workers, 0u);
  SetShards(2);
  now_.workers = 4;
  EXPECT_EQ(OpenAs(now_).points()[0].other_workers, 0u);
  EXPECT_EQ(OpenAs(now_).points()[0].shards_of_other_layout, 1u);
  EXPECT_EQ(OpenAs(now_).points()[1].other_workers, 6u);
}

TEST_F(OtherSize, IsRefusedByAnOwnerThatDoesNotTakeIt) {
  WriteAs(before_, 10);
  SetWorkers(6);
  now_.takes_other_workers = false;
  EXPECT_EQ(RefusalFor(now_), "foreign: its number of workers is 4, expected 6");
  now_.workers = 4;
  SetShards(2);
  now_.other_layout = OtherLayout::kForeign;
  EXPECT_THAT(RefusalFor(now_), HasSubstr("foreign: its plan digest is "));
  now_.other_layout = OtherLayout::kLeftOver;
  EXPECT_THAT(RefusalFor(now_), HasSubstr("left over: its plan digest is "));
  now_.model_digest = 99;
  EXPECT_THAT(RefusalFor(now_), HasSubstr("foreign: its model digest is "));
}

TEST_F(OtherSize, IsTheOnlyReasonForAnotherPlan) {
  WriteAs(before_, 10);
  now_.plan_digest = 99;
  EXPECT_THAT(RefusalFor(now_), HasSubstr("foreign: its plan digest is ")) << "another codec";
}

// Keys that checkpoints.accept names may change, but not together with the size.
TEST_F(OtherSize, IsRefusedTogetherWithAcceptedChanges) {
  WriteAs(before_, 10);
  now_.job_digest = 21;
  now_.is_same_job = [](const std::string&) { return true; };
  now_.is_same_job_of_other_size = [](const std::string&) { return false; };
  EXPECT_THAT(OpenAs(now_).points(), SizeIs(1));
  SetWorkers(6);
  EXPECT_THAT(RefusalFor(now_), HasSubstr("foreign: its plan digest is "));
  now_.is_same_job_of_other_size = [](const std::string& text) { return text == "before"; };
  EXPECT_THAT(OpenAs(now_).points(), SizeIs(1)) << "the digest differs, as after an upgrade";
}

TEST_F(OtherSize, OfACheckpointOfAnEarlierVersionIsUnknown) {
  before_.layout_digest = before_.shards = 0;  // as that version wrote it
  WriteAs(before_, 10);
  EXPECT_FALSE(OpenAs(now_).points()[0].shards_of_other_layout.has_value());
  SetWorkers(6);
  EXPECT_EQ(OpenAs(now_).points()[0].other_workers, 4u);
  EXPECT_EQ(OpenAs(now_).points()[0].shards_of_other_layout, 0u);
  now_.other_layout = OtherLayout::kForeign;
  EXPECT_THAT(RefusalFor(now_), HasSubstr("foreign: its plan digest is "));
}

TEST_F(OtherSize, NeedsTheJobsSecretAsAnyCheckpoint) {
  before_.tag_of = [](std::string_view manifest, std::string_view state) {
    return Cat("secret ", manifest.size(), " ", state.size());
  };
  WriteAs(before_, 10);
  SetWorkers(6);
  now_.tag_of = before_.tag_of;
  EXPECT_THAT(OpenAs(now_).points(), SizeIs(1));
  now_.tag_of = [](std::string_view, std::string_view) { return std::string("other"); };
  EXPECT_THAT(OpenAs(now_).points(), IsEmpty());
}

}  // namespace
}  // namespace tern::checkpoint
