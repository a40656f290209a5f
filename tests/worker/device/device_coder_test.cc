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

struct CoderFixture {
  explicit CoderFixture(const std::string& codec, const std::string& more = "seed=1")
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
  CoderFixture fixture("qsgd");
  fixture.device.code = Bytes::Own(std::string("a code"));
  fixture.coder.Push(3, 0, nullptr);
  const auto pushed = fixture.port.contributions.Pop();
  EXPECT_EQ(pushed->payload.view(), "a code");
  EXPECT_EQ(pushed->round, 3u);
}

TEST(CoderOnDevice, CompletesPushedRounds) {
  CoderFixture fixture("qsgd");
  for (uint64_t round = 1; round <= 20; ++round) fixture.coder.Push(round, 0, nullptr);
  fixture.coder.Finish();
  for (uint64_t round = 1; round <= 20; ++round) {
    const auto pushed = fixture.port.contributions.TryPop();
    ASSERT_TRUE(pushed.has_value());
    EXPECT_EQ(pushed->round, round);
  }
}

TEST(CoderOnDevice, NamesTheNonFiniteTensor) {
  CoderFixture fixture("qsgd");
  fixture.device.code = Status(Code::kDiverged, "the values to encode are not finite");
  fixture.device.stats.resize(fixture.job->plan.buckets[0].parts, {.finite = true});
  fixture.device.stats[1].finite = false;
  fixture.coder.Push(3, 0, nullptr);
  const Status ended = std::get<client::Ended>(*fixture.events.Pop()).status;
  EXPECT_EQ(ended.code(), Code::kDiverged);
  const uint32_t second =
      fixture.job->plan.parts[fixture.job->plan.buckets[0].first_part + 1].tensor;
  EXPECT_THAT(ended.message(),
              testing::HasSubstr("the gradient of " + fixture.job->table.parameters[second].name +
                                 " is not finite at round 3 on worker 1"));
}

// The first part's own scaler is above the previous round's, the others' are below.
TEST(CoderOnDevice, CodesWithPreviousScalers) {
  CoderFixture fixture("ternary", "exchange.scaler=previous");
  const protocol::Bucket& bucket = fixture.job->plan.buckets[0];
  fixture.device.prepared.resize(bucket.parts, {.sum_squares = 1e6, .max_abs = 2, .finite = true});
  fixture.device.code = Bytes::Own(std::string("a code"));
  std::vector<float> before(bucket.shared.size(), 3);
  before[0] = 1;
  fixture.coder.SetEarlierScalers([&](uint64_t, uint32_t) { return before; });
  fixture.coder.Push(3, 0, nullptr);
  const std::string payload(fixture.port.contributions.Pop()->payload.view());
  const std::vector<float> own(bucket.shared.size(), 2);
  EXPECT_EQ(payload,
            std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(float)) +
                "a code");
  ASSERT_EQ(fixture.device.counted_from.size(), bucket.parts);
  for (uint32_t p = 0; p < bucket.parts; ++p) {
    const bool clamped = p == bucket.shared[0] - bucket.first_part;
    EXPECT_EQ(fixture.device.counted_from[p], clamped ? std::nextafter(1.f, 2.f) : -1) << p;
  }
  EXPECT_EQ(fixture.progress.clamped.value(), 7u);
}

TEST(CoderOnDevice, CopiesMemoryToHostAndBack) {
  CoderFixture fixture("onebit");
  for (size_t i = 0; i < fixture.device.kept.size(); ++i)
    fixture.device.kept[i] = static_cast<float>(i);
  std::vector<float> shown;
  const Status asked = fixture.coder.VisitMemories([&](const SavedState& kept) {
    for (const SavedState::Array& array : kept.arrays) {
      shown.insert(shown.end(), array.values.begin(), array.values.end());
      for (float& value : array.values) value = -1;
    }
  });
  ASSERT_TRUE(asked.ok());
  ASSERT_EQ(shown.size(), fixture.job->table.total);
  for (size_t i = 0; i < shown.size(); ++i) ASSERT_EQ(shown[i], static_cast<float>(i));
  EXPECT_EQ(fixture.device.kept, std::vector<float>(shown.size(), -1));
  fixture.coder.Forget();
  EXPECT_EQ(fixture.device.kept, std::vector<float>(shown.size()));
}

TEST(CoderOnDevice, ReportsFailedCopies) {
  CoderFixture fixture("onebit");
  fixture.device.refuses = Status(Code::kPeerLost, "it has fallen off the bus");
  bool called = false;
  const Status asked = fixture.coder.VisitMemories([&](const SavedState&) { called = true; });
  EXPECT_EQ(asked.code(), Code::kPeerLost);
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace tern::device
