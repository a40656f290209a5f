// The priorities of a model's streams, and captures that CUDA refuses.
#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include "common/codec/codecs.h"
#include "worker/device/device.h"
#include "worker/device/device_model.h"

namespace tern::engine {
namespace {

TEST(DeviceStreams, CodingHasPriorityOverSteps) {
  const auto codec = codec::MakeCodec("ternary", {});
  ASSERT_TRUE(codec.ok());
  device::DeviceModel::Layout layout;
  layout.elements = 100;
  layout.columns = {10};
  layout.buckets = layout.chunks = {{{.begin = 0, .count = 100, .first = 0, .tensor = 0}}};
  layout.codec = codec->get();
  cuda_on_host::stream_priorities.clear();
  const auto model = device::DeviceModel::Make(layout);
  ASSERT_TRUE(model.ok()) << model.status().message();
  int least_priority = 0, greatest_priority = 0;
  cudaDeviceGetStreamPriorityRange(&least_priority, &greatest_priority);
  EXPECT_THAT(cuda_on_host::stream_priorities,
              testing::ElementsAre(least_priority, greatest_priority));
}

// A planted fault: the captured function allocates memory, which CUDA does not allow then.
TEST(DeviceStreams, CaptureWithARefusedCallIsAnError) {
  const auto stream = device::Stream::Make();
  ASSERT_TRUE(stream.ok());
  const auto graph = device::Graph::Capture((*stream)->get(), [] {
    EXPECT_FALSE(device::AllocateDevice(16).ok());
    return Ok();
  });
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(graph.status().message(), testing::HasSubstr("cudaStreamEndCapture"));
  EXPECT_TRUE(device::Graph::Capture((*stream)->get(), [] { return Ok(); }).ok());
}

}  // namespace
}  // namespace tern::engine
