// The coder of gradients on a device, with memory in the device's place.
#include "worker/device/device_coder.h"

#include <gmock/gmock.h>

#include <cmath>

#include "client/exchange/coder.h"
#include "tests/client/train/recording_port.h"
#include "tests/client/train/train_job.h"
#include "tests/worker/device/memory_as_device.h"

namespace tern::device {
namespace {

struct OnMemory {
  explicit OnMemory(const std::string& codec, const std::string& more = "seed=1")
      : job(client::SmallJob({"exchange.codec=" + codec, more})),
        device(job->table.total),
        progress(registry),
        coder(*job, std::make_unique<DeviceCoder>(*job, 1, device), port, events, progress) {}
  std::unique_ptr<setup::Setup> job;
  MemoryAsDevice device;
  Registry registry;
  client::RecordingPort port;
  client::Events events;
  client::Progress progress;
  client::Coder coder;
};

TEST(CoderOnDevice, PushesTheDevicesCodes) {
  OnMemory on("qsgd");
  on.device.code = Bytes::Own(std::string("a code"));
  on.coder.Push(3, 0, nullptr);
  const auto pushed = on.port.contributions.Pop();
  EXPECT_EQ(pushed->payload.view(), "a code");
  EXPECT_EQ(pushed->round, 3u);
}

TEST(CoderOnDevice, CompletesPushedRounds) {
  OnMemory on("qsgd");
  for (uint64_t round = 1; round <= 20; ++round) on.coder.Push(round, 0, nullptr);
  on.coder.Finish();
  for (uint64_t round = 1; round <= 20; ++round) {
    const auto pushed = on.port.contributions.TryPop();
    ASSERT_TRUE(pushed.has_value());
    EXPECT_EQ(pushed->round, round);
  }
}

TEST(CoderOnDevice, NamesTheNonFiniteTensor) {
  OnMemory on("qsgd");
  on.device.code = Status(Code::kDiverged, "the values to encode are not finite");
  on.device.stats.resize(on.job->plan.buckets[0].parts, {.finite = true});
  on.device.stats[1].finite = false;
  on.coder.Push(3, 0, nullptr);
  const Status ended = std::get<client::Ended>(*on.events.Pop()).status;
  EXPECT_EQ(ended.code(), Code::kDiverged);
  const uint32_t second = on.job->plan.parts[on.job->plan.buckets[0].first_part + 1].tensor;
  EXPECT_THAT(ended.message(),
              testing::HasSubstr("the gradient of " + on.job->table.parameters[second].name +
                                 " is not finite at round 3 on worker 1"));
}

// The first part's own scaler is above the previous round's, the others' are below.
TEST(CoderOnDevice, CodesWithPreviousScalers) {
  OnMemory on("ternary", "exchange.scaler=previous");
  const protocol::Bucket& bucket = on.job->plan.buckets[0];
  on.device.prepared.resize(bucket.parts, {.sum_squares = 1e6, .max_abs = 2, .finite = true});
  on.device.code = Bytes::Own(std::string("a code"));
  std::vector<float> before(bucket.shared.size(), 3);
  before[0] = 1;
  on.coder.TakeScalersFrom([&](uint64_t, uint32_t) { return before; });
  on.coder.Push(3, 0, nullptr);
  const std::string payload(on.port.contributions.Pop()->payload.view());
  const std::vector<float> own(bucket.shared.size(), 2);
  EXPECT_EQ(payload,
            std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(float)) +
                "a code");
  ASSERT_EQ(on.device.counted_from.size(), bucket.parts);
  for (uint32_t p = 0; p < bucket.parts; ++p) {
    const bool clamped = p == bucket.shared[0] - bucket.first_part;
    EXPECT_EQ(on.device.counted_from[p], clamped ? std::nextafter(1.f, 2.f) : -1) << p;
  }
  EXPECT_EQ(on.progress.clamped.value(), 7u);
}

TEST(CoderOnDevice, CopiesMemoryToHostAndBack) {
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

TEST(CoderOnDevice, ReportsFailedCopies) {
  OnMemory on("onebit");
  on.device.refuses = Status(Code::kPeerLost, "it has fallen off the bus");
  bool called = false;
  const Status asked = on.coder.WithKept([&](const SavedState&) { called = true; });
  EXPECT_EQ(asked.code(), Code::kPeerLost);
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace tern::device
