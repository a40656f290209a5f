// Running sums inside a launch, beside sums that are added one by one. The kernels of this test run
// on the CPU only; on a GPU, those of the ternary codes use the sums.
#include "kernels/device/look_back.cuh"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/device/launch.cuh"
#include "tests/kernels/device/device_array.h"

namespace tern::kernels {
namespace {

using Bits = std::vector<uint32_t>;  // each 0 or 1

RunningBits SumOf(const Bits& bits) {
  RunningBits sum{bits.size()};
  for (size_t i = 0; i < 7 && i < bits.size(); ++i)
    sum.last |= bits[bits.size() - 1 - i] << (6 - i);
  return sum;
}

// The rows of bits of some items, each with at most `most` bits.
std::vector<Bits> RandomItems(size_t count, uint32_t most, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Bits> items(count);
  for (Bits& bits : items) {
    bits.resize(random() % (most + 1));
    for (uint32_t& bit : bits) bit = random() % 2;
  }
  return items;
}

Bits Joined(const std::vector<Bits>& items, size_t first, size_t end) {
  Bits all;
  for (size_t i = first; i < end; ++i) all.insert(all.end(), items[i].begin(), items[i].end());
  return all;
}

void ExpectSame(const RunningBits& actual, const RunningBits& expected) {
  EXPECT_EQ(actual.count, expected.count);
  EXPECT_EQ(actual.last, expected.last);
}

void WriteSum(const uint64_t* states, uint32_t first, uint32_t item, RunningBits* sums) {
  sums[threadIdx.x] = SumOfEarlier(states, first, item);
}

// All items are published, some as totals. The sum reaches over several windows of 32 items.
TEST(LookBack, AddsUpToTheNearestTotal) {
  constexpr uint32_t kItems = 200, kFirst = 20;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const auto items = RandomItems(kItems, seed % 3 == 0 ? 100 : 1, seed);
    std::mt19937_64 random(seed);
    std::vector<uint64_t> states(kItems, 0);
    for (uint32_t i = kFirst; i < kItems; ++i) {
      const bool is_total = i == kFirst || random() % 60 == 0;
      states[i] =
          (is_total ? RunningState(RunningState::kTotal, SumOf(Joined(items, kFirst, i + 1)))
                    : RunningState(RunningState::kOwn, SumOf(items[i])))
              .word();
    }
    DeviceArray<uint64_t> device_states(states);
    for (const uint32_t item : {kFirst, kFirst + 1, kFirst + 31, kFirst + 32, kFirst + 33, 199u}) {
      DeviceArray<RunningBits> sums(32);
      ASSERT_EQ(Launch(WriteSum, 1, 32, nullptr, device_states.data(), kFirst, item, sums.data()),
                0);
      for (const RunningBits& sum : sums.Read())
        ExpectSame(sum, SumOf(Joined(items, kFirst, item)));
    }
  }
}

// Nothing before the nearest total is waited for.
TEST(LookBack, NeedsNoItemBeforeATotal) {
  const RunningBits total{10, 0x55}, own{2, 0x20};
  DeviceArray<uint64_t> states(
      std::vector<uint64_t>{0, 0, RunningState(RunningState::kTotal, total).word(),
                            RunningState(RunningState::kOwn, own).word()});
  DeviceArray<RunningBits> sums(32);
  ASSERT_EQ(Launch(WriteSum, 1, 32, nullptr, states.data(), 0, 4, sums.data()), 0);
  ExpectSame(sums.Read()[31], {12, 0x55 >> 2 | 0x20});
}

TEST(LookBack, AWaitForAnItemThatNobodyPublishesIsSeen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        cuda_on_host::Fibers::most_sleep = std::chrono::milliseconds{100};
        DeviceArray<uint64_t> states(std::vector<uint64_t>(2));
        DeviceArray<RunningBits> sums(32);
        if (Launch(WriteSum, 1, 32, nullptr, states.data(), 0, 2, sums.data()) == 0) sums.Read();
      },
      "wait for something that never comes");
}

void WaitAFewTimes(const uint64_t* states) { SumOfEarlier(states, 0, 2, /*most_waits=*/3); }

TEST(LookBack, ALongWaitEndsTheLaunch) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        DeviceArray<uint64_t> states(std::vector<uint64_t>(2));
        if (Launch(WaitAFewTimes, 1, 32, nullptr, states.data()) == 0) states.Read();
      },
      "has called __trap");
}

// Each warp adds one item, whose bits are in `own`.
void AddItems(const RunningBits* own, uint32_t count, uint32_t* num_begun, uint64_t* states,
              RunningBits* sums) {
  const uint32_t item = NumberOfBlock(num_begun) * (blockDim.x / 32) + threadIdx.x / 32;
  if (item >= count) return;
  if (item > 0) Publish(states, item, {RunningState::kOwn, own[item]});
  const RunningBits before = SumOfEarlier(states, 0, item);
  const RunningBits up_to{before.count + own[item].count, 0};
  Publish(states, item, {RunningState::kTotal, up_to});
  if (threadIdx.x % 32 == 0) sums[item] = before;
}

TEST(LookBack, WarpsOfALaunchTellEachOther) {
  constexpr uint32_t kItems = 150, kWarps = 4;
  const auto items = RandomItems(kItems, 5000, 3);
  std::vector<RunningBits> own;
  for (const Bits& bits : items) own.push_back({bits.size(), 0});
  DeviceArray<RunningBits> device_own(own), sums(kItems);
  DeviceArray<uint32_t> num_begun(std::vector<uint32_t>(1, 0));
  for (int run = 0; run < 5; ++run) {
    DeviceArray<uint64_t> states(std::vector<uint64_t>(kItems, 0));
    ASSERT_EQ(Launch(AddItems, (kItems + kWarps - 1) / kWarps, kWarps * 32, nullptr,
                     device_own.data(), kItems, num_begun.data(), states.data(), sums.data()),
              0);
    uint64_t count = 0;
    const auto found = sums.Read();
    for (uint32_t i = 0; i < kItems; ++i) {
      ExpectSame(found[i], {count, 0});
      count += items[i].size();
    }
    EXPECT_EQ(num_begun.Read()[0], 0u);
  }
}

}  // namespace
}  // namespace tern::kernels
