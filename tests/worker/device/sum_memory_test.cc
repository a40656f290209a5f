// Sums in page-locked memory: what has arrived reaches the device, whatever is dropped or used
// again.
#include "worker/device/sum_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace tern::device {
namespace {

constexpr size_t kSumBytes = 5000;

Bytes SumOf(uint8_t value, size_t size = kSumBytes) {
  return Bytes::Own(std::vector<uint8_t>(size, value));
}

class SumMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CheckDevice().ok()) GTEST_SKIP() << "there is no GPU here";
    stream_ = std::move(*Stream::Make());
    memory_ = std::move(*AllocateDevice(kCopies * kSumBytes));
  }
  uint8_t* Device(size_t copy) { return static_cast<uint8_t*>(memory_.get()) + copy * kSumBytes; }
  // The first and the last byte of a copy on the device.
  std::pair<uint8_t, uint8_t> EndsOf(size_t copy) {
    std::vector<uint8_t> bytes(kSumBytes);
    EXPECT_TRUE(stream_->CopyOut(bytes.data(), Device(copy), kSumBytes).ok());
    EXPECT_TRUE(stream_->Wait().ok());
    return {bytes.front(), bytes.back()};
  }

  static constexpr uint8_t kCopies = 40;
  std::unique_ptr<Stream> stream_;
  DeviceMemory memory_;
};

using Ends = std::pair<uint8_t, uint8_t>;

// Memory is not used again before the device has copied it, though nobody refers to it any more.
TEST_F(SumMemoryTest, IsKeptUntilTheDeviceHasIt) {
  SumMemory sums(kSumBytes);
  for (uint8_t i = 0; i < kCopies; ++i) {
    const Bytes placed = sums.Place(SumOf(i));
    ASSERT_TRUE(sums.CopyIn(stream_.get(), Device(i), placed.span()).ok());
  }
  for (uint8_t i = 0; i < kCopies; ++i) EXPECT_EQ(EndsOf(i), Ends(i, i));
}

TEST_F(SumMemoryTest, IsUsedAgainOnceTheDeviceHasIt) {
  SumMemory sums(kSumBytes);
  std::set<const uint8_t*> begins;
  for (uint8_t i = 0; i < kCopies; ++i) {
    const Bytes placed = sums.Place(SumOf(i));
    begins.insert(placed.data());
    ASSERT_TRUE(sums.CopyIn(stream_.get(), Device(i), placed.span()).ok());
    ASSERT_TRUE(stream_->Wait().ok());
  }
  EXPECT_EQ(begins.size(), 1u);
}

// The scalers before a sum are not copied, so a copy begins within the memory.
TEST_F(SumMemoryTest, CopiesPartsOfWhatWasPlaced) {
  SumMemory sums(kSumBytes);
  std::vector<uint8_t> numbered(kSumBytes);
  for (size_t i = 0; i < kSumBytes; ++i) numbered[i] = static_cast<uint8_t>(i % 251);
  Bytes placed = sums.Place(Bytes::Own(numbered));
  ASSERT_TRUE(sums.CopyIn(stream_.get(), Device(0), placed.span().subspan(8)).ok());
  placed = Bytes();
  const Bytes other = sums.Place(SumOf(255));
  EXPECT_EQ(EndsOf(0).first, 8);
}

TEST_F(SumMemoryTest, LeavesWhatIsTooLargeOrEmpty) {
  SumMemory sums(kSumBytes);
  const Bytes large = SumOf(1, kSumBytes + 1), empty;
  EXPECT_EQ(sums.Place(large).data(), large.data());
  EXPECT_EQ(sums.Place(empty).data(), empty.data());
}

TEST_F(SumMemoryTest, LeavesWhatIsBeyondItsBound) {
  constexpr size_t kLarge = SumMemory::kMaxBytes / 2;
  SumMemory sums(kLarge);
  const Bytes sum = SumOf(7);
  const Bytes first = sums.Place(sum), second = sums.Place(sum), third = sums.Place(sum);
  EXPECT_NE(first.data(), sum.data());
  EXPECT_NE(second.data(), sum.data());
  EXPECT_EQ(third.data(), sum.data());
  EXPECT_EQ(first, sum);
}

// Bytes of others may change as soon as CopyIn returns.
TEST_F(SumMemoryTest, CopiesOtherBytesAtOnce) {
  SumMemory sums(kSumBytes);
  std::vector<uint8_t> others(kSumBytes, 3);
  ASSERT_TRUE(sums.CopyIn(stream_.get(), Device(0), others).ok());
  others.assign(kSumBytes, 4);
  EXPECT_EQ(EndsOf(0), Ends(3, 3));
}

TEST_F(SumMemoryTest, WhatWasPlacedOutlivesIt) {
  auto sums = std::make_unique<SumMemory>(kSumBytes);
  const Bytes placed = sums->Place(SumOf(9));
  sums.reset();
  EXPECT_EQ(placed, SumOf(9));
}

// With a copy still to be made, whose memory nobody refers to.
TEST_F(SumMemoryTest, WaitsForItsCopies) {
  auto sums = std::make_unique<SumMemory>(kSumBytes);
  ASSERT_TRUE(sums->CopyIn(stream_.get(), Device(0), sums->Place(SumOf(6)).span()).ok());
  sums.reset();
  EXPECT_EQ(EndsOf(0), Ends(6, 6));
}

}  // namespace
}  // namespace tern::device
