// Failures of the device on which a net computes. After a failed launch, the net has an error
// status with a message, and reports no gradient as ready. cuda_on_host emulates a GPU: launches
// fail once launches_left is 0, and allocations of more than max_allocation_bytes fail.
#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include <cmath>

#include "tests/worker/engine/problem.h"
#include "worker/device/device.h"

namespace tern::engine {
namespace {

using testing::HasSubstr;

class DeviceFailure : public testing::Test {
 protected:
  void TearDown() override {
    cuda_on_host::launches_left = cuda_on_host::max_allocation_bytes = ~uint64_t{0};
    cuda_on_host::has_code = true;
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the next call would be blamed for it";
  }
  double Forward() {
    return net_->Forward({problem_.images, problem_.labels, problem_.batch}, nullptr);
  }
  uint32_t Backward() {
    uint32_t num_ready_gradients = 0;
    net_->Backward([&num_ready_gradients](uint32_t) { ++num_ready_gradients; });
    return num_ready_gradients;
  }

  Problem problem_{MakeLeNet(pb::Model::valid), 2};
  std::unique_ptr<Net> net_;
};

TEST_F(DeviceFailure, InForwardNamesTheLayer) {
  net_ = problem_.MakeNet();
  cuda_on_host::launches_left = 3;  // enough for the images, the weights and the first layer
  EXPECT_TRUE(std::isnan(Forward()));
  EXPECT_EQ(net_->status().code(), Code::kPeerLost);
  EXPECT_THAT(net_->status().message(), HasSubstr("layer \"pool1\", max pool: launch failure"));
  EXPECT_EQ(Backward(), 0u);
}

TEST_F(DeviceFailure, InBackwardReportsNoGradientReady) {
  net_ = problem_.MakeNet();
  EXPECT_FALSE(std::isnan(Forward()));
  cuda_on_host::launches_left = 3;
  EXPECT_EQ(Backward(), 0u);
  EXPECT_THAT(net_->status().message(), HasSubstr("the backward pass of layer"));
  cuda_on_host::launches_left = 1000;
  EXPECT_TRUE(std::isnan(Forward())) << "it does not come back";
}

TEST_F(DeviceFailure, WithoutGraphsLaunchesRunSingly) {
  net_ = problem_.MakeNet();
  EXPECT_FALSE(std::isnan(Forward()));
  cuda_on_host::max_allocation_bytes = 0;
  const uint64_t graphs_before = cuda_on_host::graphs_launched;
  EXPECT_FALSE(std::isnan(Forward())) << net_->status().message();
  EXPECT_EQ(cuda_on_host::graphs_launched, graphs_before);
  EXPECT_EQ(net_->planning().graphs, 0u);
  EXPECT_EQ(net_->planning().segments, 2u);
}

TEST_F(DeviceFailure, OutOfMemoryIsReported) {
  cuda_on_host::max_allocation_bytes = 100000;
  const auto net = Net::Make(
      problem_.net, {.device = Device::kCuda, .batch = 2},
      {problem_.parameters.data(), problem_.gradients.data(), problem_.statistics.data()});
  ASSERT_FALSE(net.ok());
  EXPECT_EQ(net.status().code(), Code::kBadJob);
  EXPECT_THAT(net.status().message(), HasSubstr("take a smaller batch"));
}

// The copy waits, because the caller may change the bytes at once.
TEST_F(DeviceFailure, WithoutPageLockedMemoryCopiesGoOn) {
  auto stream = std::move(*device::Stream::Make());
  const auto memory = std::move(*device::AllocateDevice(sizeof(float)));
  cuda_on_host::max_allocation_bytes = 0;
  float copied = 0;
  for (const float value : {3.0f, 4.0f}) {
    float bytes = value;
    const Status status = stream->CopyInNow(memory.get(), &bytes, sizeof bytes);
    ASSERT_TRUE(status.ok()) << status.message();
    bytes = -1;
    ASSERT_TRUE(stream->CopyOut(&copied, memory.get(), sizeof copied).ok());
    ASSERT_TRUE(stream->Wait().ok());
    EXPECT_EQ(copied, value);
  }
}

TEST_F(DeviceFailure, WithoutPageLockedMemoryForCodesTheJobEndsForGood) {
  device::PinnedPool pool(4000000);
  auto slab = pool.Acquire();
  ASSERT_TRUE(slab.ok());
  cuda_on_host::max_allocation_bytes = 0;
  const auto refused = pool.Acquire();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kBadJob);
  EXPECT_THAT(refused.status().message(), HasSubstr("cannot page-lock 4.0 MB of memory"));
  pool.Release(std::move(*slab));
  EXPECT_TRUE(pool.Acquire().ok()) << "a released buffer needs no new memory";
}

TEST_F(DeviceFailure, AProgramWithoutCodeForTheGpuIsRefused) {
  cuda_on_host::has_code = false;
  const Status status = device::CheckDevice();
  EXPECT_EQ(status.code(), Code::kBadJob);
  EXPECT_THAT(status.message(), HasSubstr("the GPU has compute capability 9.0, for which this "
                                          "program has no code"));
}

}  // namespace
}  // namespace tern::engine
