// The streams of the simulated GPU, and faults that they must show.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace cuda_on_host {
namespace {

constexpr uint64_t kSeeds = 40;
constexpr uint8_t kNotWritten = 0xFF;  // what fresh memory is full of

class Streams : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Device::Get().SetSeed(1);
    for (cudaStream_t* stream : {&first_, &second_})
      ASSERT_EQ(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, 0), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&memory_, kBytes), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&other_memory_, kBytes), cudaSuccess);
    void* locked = nullptr;
    ASSERT_EQ(cudaMallocHost(&locked, kBytes), cudaSuccess);
    locked_ = static_cast<uint8_t*>(locked);
  }
  void TearDown() override {
    EXPECT_EQ(cudaFree(memory_), cudaSuccess);
    EXPECT_EQ(cudaFree(other_memory_), cudaSuccess);
    if (locked_ != nullptr) {
      EXPECT_EQ(cudaFreeHost(locked_), cudaSuccess);
    }
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
    for (cudaStream_t stream : {first_, second_}) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
  // The first byte of memory on the device, by a stream that waits for nothing else.
  uint8_t FirstByteOf(const void* memory) {
    uint8_t byte = 0;
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(&byte, memory, 1, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    return byte;
  }
  // The first stream writes 7 to memory_; the second copies it to the host. Returns the copy.
  uint8_t CopyOfSeven(uint64_t seed, bool waits_for_event) {
    EXPECT_EQ(cudaMemset(memory_, 0, kBytes), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    Device::Get().SetSeed(seed);
    uint8_t copy = 0;
    EXPECT_EQ(cudaMemsetAsync(memory_, 7, kBytes, first_), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event_, first_), cudaSuccess);
    if (waits_for_event) {
      EXPECT_EQ(cudaStreamWaitEvent(second_, event_, 0), cudaSuccess);
    }
    EXPECT_EQ(cudaMemcpyAsync(&copy, memory_, 1, cudaMemcpyDeviceToHost, second_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(second_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
    return copy;
  }
  void CopyLockedToDevice() {
    ASSERT_EQ(cudaMemcpyAsync(memory_, locked_, kBytes, cudaMemcpyHostToDevice, first_),
              cudaSuccess);
  }

  static constexpr size_t kBytes = 64;
  cudaStream_t first_ = nullptr, second_ = nullptr;
  cudaEvent_t event_ = nullptr;
  void *memory_ = nullptr, *other_memory_ = nullptr;
  uint8_t* locked_ = nullptr;
};

TEST_F(Streams, RunNothingBeforeAWait) {
  uint8_t copy = 1;
  ASSERT_EQ(cudaMemsetAsync(memory_, 7, kBytes, first_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(&copy, memory_, 1, cudaMemcpyDeviceToHost, first_), cudaSuccess);
  EXPECT_EQ(copy, kNotWritten) << "a missing wait: neither the old value nor the new one";
  ASSERT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  EXPECT_EQ(copy, 7);
}

TEST_F(Streams, MissingWaitsBetweenStreamsAreSeen) {
  std::set<uint8_t> copies;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) copies.insert(CopyOfSeven(seed, false));
  EXPECT_THAT(copies, testing::ElementsAre(0, 7));
}

TEST_F(Streams, WaitsBetweenStreamsAreObeyed) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) EXPECT_EQ(CopyOfSeven(seed, true), 7) << seed;
}

TEST_F(Streams, WaitForAnEventLeavesLaterWork) {
  std::set<uint8_t> bytes;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Device::Get().SetSeed(seed);
    ASSERT_EQ(cudaMemsetAsync(memory_, 1, kBytes, first_), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event_, first_), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(memory_, 2, kBytes, first_), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
    ASSERT_EQ(cudaEventSynchronize(event_), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
    bytes.insert(FirstByteOf(memory_));
    ASSERT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  }
  EXPECT_THAT(bytes, testing::ElementsAre(1, 2));
}

TEST_F(Streams, WaitForTheLastMarkOfAnEvent) {
  ASSERT_EQ(cudaEventSynchronize(event_), cudaSuccess) << "without a mark there is no wait";
  ASSERT_EQ(cudaStreamWaitEvent(second_, event_, 0), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(second_), cudaSuccess);
  for (const int value : {3, 4}) {
    ASSERT_EQ(cudaMemsetAsync(memory_, value, kBytes, first_), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event_, first_), cudaSuccess);
  }
  ASSERT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(FirstByteOf(memory_), 4);
}

// The order in which three streams with three pieces of work each run.
std::vector<int> OrderOfSeed(uint64_t seed) {
  std::vector<int> order;
  std::vector<std::shared_ptr<Stream>> streams;
  for (int s = 0; s < 3; ++s) {
    streams.push_back(Device::Get().NewStream());
    for (int i = 0; i < 3; ++i) {
      const Work work{[&order, s, i] { order.push_back(10 * s + i); }};
      Device::Get().Give(*streams.back(), {std::make_shared<const Work>(work)});
    }
  }
  Device::Get().SetSeed(seed);
  Device::Get().FinishAll();
  return order;
}

TEST_F(Streams, OrderDependsOnTheSeedAlone) {
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::vector<int> order = OrderOfSeed(seed);
    EXPECT_EQ(order, OrderOfSeed(seed));
    orders.insert(order);
    for (int s = 0; s < 3; ++s) {
      std::vector<int> of_stream;
      std::copy_if(order.begin(), order.end(), std::back_inserter(of_stream),
                   [s](int number) { return number / 10 == s; });
      EXPECT_THAT(of_stream, testing::ElementsAre(10 * s, 10 * s + 1, 10 * s + 2));
    }
  }
  EXPECT_GT(orders.size(), 10u);
}

TEST_F(Streams, PageLockedSourcesAreReadLate) {
  std::memset(locked_, 5, kBytes);
  CopyLockedToDevice();
  ASSERT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  std::memset(locked_, 6, kBytes);
  EXPECT_EQ(FirstByteOf(memory_), 5);
}

TEST_F(Streams, SourcesThatAreOverwrittenEarlyAreSeen) {
  std::memset(locked_, 5, kBytes);
  CopyLockedToDevice();
  locked_[kBytes - 1] = 6;
  EXPECT_DEATH(cudaStreamSynchronize(first_), "overwritten before the stream had copied it");
  locked_[kBytes - 1] = 5;
}

TEST_F(Streams, SourcesThatAreFreedEarlyAreSeen) {
  CopyLockedToDevice();
  EXPECT_DEATH(cudaFreeHost(locked_), "freed before a copy of it has run");
}

TEST_F(Streams, TargetsThatAreFreedEarlyAreSeen) {
  ASSERT_EQ(cudaMemcpyAsync(locked_, memory_, kBytes, cudaMemcpyDeviceToHost, first_), cudaSuccess);
  EXPECT_DEATH(cudaFreeHost(locked_), "freed before a copy of it has run");
}

TEST_F(Streams, RegisteredMemoryIsPageLockedUntilItIsUnregistered) {
  std::vector<uint8_t> values(kBytes, 5);
  ASSERT_EQ(cudaHostRegister(values.data(), kBytes, cudaHostRegisterDefault), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(memory_, values.data() + 1, kBytes - 1, cudaMemcpyHostToDevice, first_),
            cudaSuccess);
  EXPECT_EQ(cudaHostRegister(values.data() + 5, 1, cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaGetLastError(), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_DEATH(cudaHostUnregister(values.data()), "freed before a copy of it has run");
  ASSERT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  ASSERT_EQ(cudaHostUnregister(values.data()), cudaSuccess);
}

TEST_F(Streams, OtherSourcesAreReadLateToo) {
  std::vector<uint8_t> values(kBytes, 5);
  ASSERT_EQ(cudaMemcpyAsync(memory_, values.data(), kBytes, cudaMemcpyHostToDevice, first_),
            cudaSuccess);
  values.assign(kBytes, 6);
  EXPECT_DEATH(cudaStreamSynchronize(first_), "overwritten before the stream had copied it");
  values.assign(kBytes, 5);
  ASSERT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
}

TEST_F(Streams, CopiesOnTheLegacyStreamMayReturnEarly) {
  const std::vector<uint8_t> values(kBytes, 5);
  std::set<uint8_t> bytes;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ASSERT_EQ(cudaMemset(other_memory_, 0, kBytes), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    Device::Get().SetSeed(seed);
    ASSERT_EQ(cudaMemcpy(memory_, values.data(), kBytes, cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(other_memory_, memory_, kBytes, cudaMemcpyDeviceToDevice), cudaSuccess);
    bytes.insert(FirstByteOf(other_memory_));
    uint8_t copy = 0;
    ASSERT_EQ(cudaMemcpy(&copy, other_memory_, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(copy, 5);
  }
  EXPECT_THAT(bytes, testing::ElementsAre(0, 5));
}

TEST_F(Streams, FreeingDeviceMemoryWaitsForStreamsThatAreGone) {
  cudaStream_t gone = nullptr;
  void* freed = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&gone, cudaStreamNonBlocking, 0), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&freed, 1), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(freed, 5, 1, gone), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(locked_, freed, 1, cudaMemcpyDeviceToHost, gone), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(gone), cudaSuccess);
  EXPECT_EQ(locked_[0], kNotWritten);
  ASSERT_EQ(cudaFree(freed), cudaSuccess);
  EXPECT_EQ(locked_[0], 5);
}

TEST_F(Streams, ThreadsUseThemBesideEachOther) {
  const auto write_and_read = [](cudaStream_t stream, void* memory, uint8_t value) {
    for (int i = 0; i < 50; ++i) {
      uint8_t copy = 0;
      ASSERT_EQ(cudaMemsetAsync(memory, value + i, kBytes, stream), cudaSuccess);
      ASSERT_EQ(cudaMemcpyAsync(&copy, memory, 1, cudaMemcpyDeviceToHost, stream), cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      ASSERT_EQ(copy, value + i);
    }
  };
  std::thread other(write_and_read, first_, memory_, 0);
  write_and_read(second_, other_memory_, 100);
  other.join();
}

}  // namespace
}  // namespace cuda_on_host
