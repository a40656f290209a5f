// The coder of gradients on a device; host memory takes the device's place.
#include "worker/device/device_coder.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "client/exchange/coder.h"
#include "client/exchange/host_coder.h"
#include "tests/client/train/recording_port.h"
#include "tests/client/train/train_job.h"
#include "tests/worker/device/memory_as_device.h"

namespace tern::device {
namespace {

struct DeviceCoderFixture {
  explicit DeviceCoderFixture(const std::string& codec, const std::string& setting = "seed=1")
      : job(client::SmallJob({"exchange.codec=" + codec, setting})),
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
  DeviceCoderFixture fixture("qsgd");
  fixture.device.code = Bytes::Own(std::string("a code"));
  fixture.coder.Push(3, 0, nullptr);
  const auto pushed_contribution = fixture.port.contributions.Pop();
  EXPECT_EQ(pushed_contribution->payload.view(), "a code");
  EXPECT_EQ(pushed_contribution->round, 3u);
}

TEST(CoderOnDevice, CompletesPushedRounds) {
  DeviceCoderFixture fixture("qsgd");
  for (uint64_t round = 1; round <= 20; ++round) fixture.coder.Push(round, 0, nullptr);
  fixture.coder.AwaitEncoding();
  for (uint64_t round = 1; round <= 20; ++round) {
    const auto pushed_contribution = fixture.port.contributions.TryPop();
    ASSERT_TRUE(pushed_contribution.has_value());
    EXPECT_EQ(pushed_contribution->round, round);
  }
}

TEST(CoderOnDevice, NamesTheNonFiniteTensor) {
  DeviceCoderFixture fixture("qsgd");
  fixture.device.code = Status(Code::kDiverged, "the values to encode are not finite");
  fixture.device.stats.resize(fixture.job->plan.buckets[0].parts, {.is_finite = true});
  fixture.device.stats[1].is_finite = false;
  fixture.coder.Push(3, 0, nullptr);
  const Status end_status = std::get<client::Ended>(*fixture.events.Pop()).status;
  EXPECT_EQ(end_status.code(), Code::kDiverged);
  const uint32_t second_tensor =
      fixture.job->plan.parts[fixture.job->plan.buckets[0].first_part + 1].tensor;
  EXPECT_THAT(
      end_status.message(),
      testing::HasSubstr("the gradient of " + fixture.job->table.parameters[second_tensor].name +
                         " is not finite at round 3 on worker 1"));
}

// With the statistics that the host computes, too. A worker on a GPU that clips otherwise than one
// on a CPU trains worse, although the replicas of both agree.
TEST(CoderOnDevice, PreparesTheScalersAndClipLevelsOfTheHost) {
  for (const char* setting : {"seed=1", "exchange.clip=official", "exchange.scaler_elements=64"}) {
    SCOPED_TRACE(setting);
    const auto job = client::SmallJob({"exchange.codec=ternary", setting});
    MemoryAsDevice device(job->table.total);
    DeviceCoder coder(*job, 1, device);
    client::HostCoder host_coder(*job, 1);
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.01f);
    std::vector<float> gradients(job->table.total);
    for (float& gradient : gradients) gradient = normal(random);
    for (uint32_t b = 0; b < job->plan.buckets.size(); ++b) {
      const protocol::Bucket& bucket = job->plan.buckets[b];
      device.prepare_stats.clear();
      for (uint32_t p = bucket.first_part; p < bucket.first_part + bucket.parts; ++p) {
        const protocol::Part& part = job->plan.parts[p];
        device.prepare_stats.push_back(kernels::ComputeStats(
            &gradients[job->plan.tensor_begin[part.tensor] + part.begin], part.count));
      }
      const client::GradientCoder::BucketValues values{
          .round = 3, .bucket = b, .arena = gradients.data()};
      const auto params = coder.Prepare(values), host_params = host_coder.Prepare(values);
      ASSERT_TRUE(params.ok() && host_params.ok());
      for (uint32_t p = 0; p < bucket.parts; ++p) {
        EXPECT_EQ((*params)[p].scaler, (*host_params)[p].scaler) << p;
        EXPECT_EQ((*params)[p].clip, (*host_params)[p].clip) << p;
      }
    }
  }
}

// A scaler is the largest magnitude of a part (a tensor) of the bucket; codes are relative to the
// scaler. The previous round's scalers are 1 for the first part and 3 for the others. The worker's
// scalers of this round are 2. So values can be clamped at the previous scaler in the first part
// only.
TEST(CoderOnDevice, CodesWithPreviousScalers) {
  DeviceCoderFixture fixture("ternary", "exchange.scaler=previous");
  const protocol::Bucket& bucket = fixture.job->plan.buckets[0];
  fixture.device.prepare_stats.resize(bucket.parts,
                                      {.sum_squares = 1e6, .max_abs = 2, .is_finite = true});
  fixture.device.code = Bytes::Own(std::string("a code"));
  std::vector<float> earlier_scalers(bucket.shared_parts.size(), 3);
  earlier_scalers[0] = 1;
  fixture.coder.SetEarlierScalersFunction([&](uint64_t, uint32_t) { return earlier_scalers; });
  fixture.coder.Push(3, 0, nullptr);
  const std::string payload(fixture.port.contributions.Pop()->payload.view());
  const std::vector<float> own_scalers(bucket.shared_parts.size(), 2);
  EXPECT_EQ(payload, std::string(reinterpret_cast<const char*>(own_scalers.data()),
                                 own_scalers.size() * sizeof(float)) +
                         "a code");
  ASSERT_EQ(fixture.device.counted_magnitudes.size(), bucket.parts);
  for (uint32_t part = 0; part < bucket.parts; ++part) {
    const bool is_clamped = part == bucket.shared_parts[0] - bucket.first_part;
    EXPECT_EQ(fixture.device.counted_magnitudes[part], is_clamped ? std::nextafter(1.f, 2.f) : -1)
        << part;
  }
  EXPECT_EQ(fixture.progress.num_clamped.value(), 7u);
}

TEST(CoderOnDevice, CopiesMemoryToHostAndBack) {
  DeviceCoderFixture fixture("onebit");
  for (size_t i = 0; i < fixture.device.memory_values.size(); ++i)
    fixture.device.memory_values[i] = static_cast<float>(i);
  std::vector<float> visited_values;
  const Status visit_status = fixture.coder.VisitMemories([&](const SavedState& memory) {
    for (const SavedState::Array& array : memory.arrays) {
      visited_values.insert(visited_values.end(), array.values.begin(), array.values.end());
      for (float& value : array.values) value = -1;
    }
  });
  ASSERT_TRUE(visit_status.ok());
  ASSERT_EQ(visited_values.size(), fixture.job->table.total);
  for (size_t i = 0; i < visited_values.size(); ++i)
    ASSERT_EQ(visited_values[i], static_cast<float>(i));
  EXPECT_EQ(fixture.device.memory_values, std::vector<float>(visited_values.size(), -1));
  fixture.coder.DropPushesAndMemories();
  EXPECT_EQ(fixture.device.memory_values, std::vector<float>(visited_values.size()));
}

TEST(CoderOnDevice, ReportsFailedCopies) {
  DeviceCoderFixture fixture("onebit");
  fixture.device.copy_status = Status(Code::kPeerLost, "it has fallen off the bus");
  bool was_called = false;
  const Status visit_status =
      fixture.coder.VisitMemories([&](const SavedState&) { was_called = true; });
  EXPECT_EQ(visit_status.code(), Code::kPeerLost);
  EXPECT_FALSE(was_called);
}

}  // namespace
}  // namespace tern::device
