// The coder of gradients that lie on a device.
#include <gmock/gmock.h>

#include "tests/worker/memory_as_device.h"
#include "tests/worker/recording_port.h"
#include "tests/worker/train_job.h"
#include "worker/train/coder.h"

namespace tern::train {
namespace {

struct OnMemory {
  explicit OnMemory(const std::string& codec)
      : job(SmallJob({"exchange.codec=" + codec})),
        device(job->table.total),
        progress(registry),
        coder(*job, 1, port, events, progress) {
    coder.TakeFrom(&device);
  }
  std::unique_ptr<setup::Setup> job;
  MemoryAsDevice device;
  Registry registry;
  RecordingPort port;
  Events events;
  Progress progress;
  Coder coder;
};

TEST(CoderOnDevice, PushesWhatIsCodedThere) {
  OnMemory on("qsgd");
  on.device.code = Bytes::Own(std::string("a code"));
  on.coder.Push(3, 0, nullptr);
  const auto said = on.port.said.Pop();
  EXPECT_EQ(said->payload.view(), "a code");
  EXPECT_EQ(said->round, 3u);
}

TEST(CoderOnDevice, SaysWhichTensorIsNotFinite) {
  OnMemory on("qsgd");
  on.device.code = Status(Code::kBadData, "what is to be coded is not finite");
  on.device.stats.resize(on.job->plan.buckets[0].parts, {.finite = true});
  on.device.stats[1].finite = false;
  on.coder.Push(3, 0, nullptr);
  const Status ended = std::get<Ended>(*on.events.Pop()).status;
  EXPECT_EQ(ended.code(), Code::kBadData);
  const uint32_t second = on.job->plan.parts[on.job->plan.buckets[0].first_part + 1].tensor;
  EXPECT_THAT(ended.message(),
              testing::HasSubstr("the gradient of " + on.job->table.parameters[second].name +
                                 " is not finite at round 3 on worker 1"));
}

TEST(CoderOnDevice, ShowsWhatIsKeptThereAndTakesItBack) {
  OnMemory on("onebit");
  for (size_t i = 0; i < on.device.kept.size(); ++i) on.device.kept[i] = static_cast<float>(i);
  std::vector<float> shown;
  const Status asked = on.coder.WithKept([&](const SavedState& kept) {
    for (const SavedState::Array& array : kept.arrays) {
      shown.insert(shown.end(), array.values.begin(), array.values.end());
      for (float& value : array.values) value = -1;
    }
  });
  ASSERT_TRUE(asked.ok());
  ASSERT_EQ(shown.size(), on.job->table.total);
  for (size_t i = 0; i < shown.size(); ++i) ASSERT_EQ(shown[i], static_cast<float>(i));
  EXPECT_EQ(on.device.kept, std::vector<float>(shown.size(), -1));
  on.coder.Forget();
  EXPECT_EQ(on.device.kept, std::vector<float>(shown.size()));
}

TEST(CoderOnDevice, ShowsNothingThatItCouldNotBring) {
  OnMemory on("onebit");
  on.device.refuses = Status(Code::kPeerLost, "it has fallen off the bus");
  bool called = false;
  const Status asked = on.coder.WithKept([&](const SavedState&) { called = true; });
  EXPECT_EQ(asked.code(), Code::kPeerLost);
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace tern::train
