// The priorities of a model's streams, events, and captures that CUDA refuses.
#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include <cstdint>
#include <vector>

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

// More copies than a stream has slots, of more bytes each time, from memory that is overwritten at
// once. A copy from the vector itself would be seen by the stand-in.
TEST(DeviceStreams, CopyInNowHasReadItsSource) {
  auto stream = device::Stream::Make();
  constexpr uint32_t kCopies = 100, kMost = 200 * kCopies;
  const auto memory = device::AllocateDevice(kCopies * kMost);
  ASSERT_TRUE(stream.ok() && memory.ok());
  auto* bytes = static_cast<uint8_t*>(memory->get());
  std::vector<uint8_t> source;
  for (uint8_t i = 0; i < kCopies; ++i) {
    source.assign(200 * (i + 1), i);
    ASSERT_TRUE((*stream)->CopyInNow(bytes + i * kMost, source.data(), source.size()).ok());
    source.assign(source.size(), 255);
  }
  std::vector<uint8_t> arrived(kCopies * kMost);
  ASSERT_TRUE((*stream)->CopyOut(arrived.data(), bytes, arrived.size()).ok());
  ASSERT_TRUE((*stream)->Wait().ok());
  for (uint8_t i = 0; i < kCopies; ++i) {
    EXPECT_EQ(arrived[i * kMost], i);
    EXPECT_EQ(arrived[i * kMost + 200 * (i + 1) - 1], i);
  }
  source.assign(kMost, 5);
  ASSERT_TRUE((*stream)->CopyInNow(bytes, source.data(), source.size()).ok());
  stream->reset();  // waits for the copy, whose source it frees
}

TEST(DeviceStreams, AnEventThatIsNotReachedIsNoError) {
  const auto stream = device::Stream::Make();
  const auto event = device::Event::Make();
  const auto memory = device::AllocateDevice(16);
  ASSERT_TRUE(stream.ok() && event.ok() && memory.ok());
  ASSERT_TRUE((*stream)->Zero(memory->get(), 16).ok());
  ASSERT_TRUE((*event)->Record(**stream).ok());
  EXPECT_FALSE(*(*event)->IsDone());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the next launch would be blamed for it";
  ASSERT_TRUE((*event)->Wait().ok());
  EXPECT_TRUE(*(*event)->IsDone());
}

// A planted fault: the captured function allocates memory, which CUDA does not allow then.
TEST(DeviceStreams, CaptureWithARefusedCallIsAnError) {
  const auto stream = device::Stream::Make();
  ASSERT_TRUE(stream.ok());
  const auto graph = device::Graph::Capture((*stream)->get(), [] {
    EXPECT_EQ(device::AllocateDevice(16).status().code(), Code::kPeerLost) << "memory is not short";
    return Ok();
  });
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(graph.status().message(), testing::HasSubstr("cudaStreamEndCapture"));
  EXPECT_TRUE(device::Graph::Capture((*stream)->get(), [] { return Ok(); }).ok());
}

}  // namespace
}  // namespace tern::engine
