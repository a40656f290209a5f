// Graphs that streams of the simulated GPU capture, and calls that make a capture void.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <thread>
#include <vector>

namespace cuda_on_host {
namespace {

constexpr uint8_t kNotWritten = 0xFF;

class Captures : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithPriority(&other_stream_, cudaStreamNonBlocking, 0), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&memory_, 1), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(&locked_, 1), cudaSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cudaFree(memory_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(locked_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(other_stream_), cudaSuccess);
    cudaGetLastError();
  }
  void Begin() {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  }
  uint8_t FirstByte() {
    uint8_t byte = 0;
    EXPECT_EQ(cudaMemcpy(&byte, memory_, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    return byte;
  }

  cudaStream_t stream_ = nullptr, other_stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
  void *memory_ = nullptr, *locked_ = nullptr;
};

void AddOne(uint8_t* number) { ++*number; }

cudaError_t LaunchAddOne(cudaStream_t stream, void* number) {
  cudaLaunchConfig_t config;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, AddOne, static_cast<uint8_t*>(number));
}

TEST_F(Captures, AreReplayedWithAllTheirWork) {
  auto& source = *static_cast<uint8_t*>(locked_);
  uint8_t target = 0;
  Begin();
  ASSERT_EQ(cudaMemsetAsync(memory_, 1, 1, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(memory_, &source, 1, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  ASSERT_EQ(LaunchAddOne(stream_, memory_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(&target, memory_, 1, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory_, 9, 1, stream_), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(FirstByte(), kNotWritten) << "a capture runs nothing";
  size_t num_nodes = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &num_nodes), cudaSuccess);
  EXPECT_EQ(num_nodes, 5u);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (uint8_t value : {3, 5}) {
    source = value;
    ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(target, value + 1);
    EXPECT_EQ(FirstByte(), 9);
  }
  ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(Captures, LeaveOtherStreamsAndThreadsAlone) {
  Begin();
  ASSERT_EQ(cudaMemsetAsync(memory_, 1, 1, other_stream_), cudaSuccess);
  std::thread other([&] {
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, 1), cudaSuccess);
    ASSERT_EQ(cudaFree(memory), cudaSuccess);
  });
  other.join();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(FirstByte(), 1);
  EXPECT_TRUE(graph->work.empty());
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(Captures, OfTheLegacyStreamAreRefused) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal),
            cudaErrorStreamCaptureUnsupported);
}

TEST_F(Captures, OfAnotherThreadAreNoReasonToWait) {
  Begin();
  std::thread other(
      [&] { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported); });
  other.join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
}

// What a call that is not allowed in a capture is made with.
struct Handles {
  cudaStream_t stream, other_stream;
  cudaEvent_t event;
  void *memory, *locked;
};

struct RefusedCall {
  const char* name;
  std::function<cudaError_t(const Handles&)> call;
};

void PrintTo(const RefusedCall& refused, std::ostream* out) { *out << refused.name; }

class RefusedCalls : public Captures, public testing::WithParamInterface<RefusedCall> {};

TEST_P(RefusedCalls, MakeACaptureVoid) {
  Begin();
  EXPECT_EQ(GetParam().call({stream_, other_stream_, event_, memory_, locked_}),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaMemsetAsync(memory_, 1, 1, stream_), cudaErrorStreamCaptureInvalidated);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(FirstByte(), kNotWritten);
  Begin();
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess) << "the next is not concerned";
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(
    Each, RefusedCalls,
    testing::Values(
        RefusedCall{"malloc",
                    [](const Handles&) {
                      void* memory = nullptr;
                      return cudaMalloc(&memory, 1);
                    }},
        RefusedCall{"free", [](const Handles& with) { return cudaFree(with.memory); }},
        RefusedCall{"malloc_host",
                    [](const Handles&) {
                      void* memory = nullptr;
                      return cudaMallocHost(&memory, 1);
                    }},
        RefusedCall{"free_host", [](const Handles& with) { return cudaFreeHost(with.locked); }},
        RefusedCall{"host_register",
                    [](const Handles&) {
                      uint8_t byte = 0;
                      return cudaHostRegister(&byte, 1, cudaHostRegisterDefault);
                    }},
        RefusedCall{"host_unregister",
                    [](const Handles& with) { return cudaHostUnregister(with.locked); }},
        RefusedCall{"synchronize",
                    [](const Handles& with) { return cudaStreamSynchronize(with.stream); }},
        RefusedCall{"synchronize_other",
                    [](const Handles& with) { return cudaStreamSynchronize(with.other_stream); }},
        RefusedCall{"synchronize_legacy",
                    [](const Handles&) { return cudaStreamSynchronize(nullptr); }},
        RefusedCall{"event_synchronize",
                    [](const Handles& with) { return cudaEventSynchronize(with.event); }},
        RefusedCall{"event_query", [](const Handles& with) { return cudaEventQuery(with.event); }},
        RefusedCall{"event_record",
                    [](const Handles& with) { return cudaEventRecord(with.event, with.stream); }},
        RefusedCall{
            "event_wait",
            [](const Handles& with) { return cudaStreamWaitEvent(with.stream, with.event, 0); }},
        RefusedCall{"memcpy",
                    [](const Handles& with) {
                      const uint8_t byte = 5;
                      return cudaMemcpy(with.memory, &byte, 1, cudaMemcpyHostToDevice);
                    }},
        RefusedCall{"memset", [](const Handles& with) { return cudaMemset(with.memory, 5, 1); }},
        RefusedCall{"legacy_launch",
                    [](const Handles& with) { return LaunchAddOne(nullptr, with.memory); }}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace cuda_on_host
