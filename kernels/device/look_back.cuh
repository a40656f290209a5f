// Running sums inside one launch: the warp that has computed an item learns the sum of the items
// before it without a launch in between ("Single-pass Parallel Prefix Scan with Decoupled
// Look-back", Merrill and Garland 2016). A warp publishes what its item adds; looks back over the
// items before it, as far as the nearest one whose running sum is known; and publishes its own
// running sum. Items are warps' tiles, or parts of a tensor. For .cu files only.
//
// A warp may wait for items of warps of this block, and of blocks with lower numbers (NumberOfBlock
// in launch.cuh), which have begun: they wait for none that has not, so no launch stands still.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/device/launch.cuh"

namespace tern::kernels {

// A row of bits that is appended to other rows, without the bits that are complete bytes.
struct RunningBits {
  uint64_t count = 0;  // below 2^55
  // The last seven bits, the last one as bit 6. Zeros stand for those that a shorter row lacks.
  uint32_t last = 0;
};

// What other warps may know of an item, in one word, so that a load gets all of it or nothing.
class RunningState {
 public:
  enum Kind : uint32_t {
    kUnknown = 0,  // what memory that is full of zeros says
    kOwn = 1,      // what the item adds
    kTotal = 2     // what the item and those before it add up to
  };
  __device__ explicit RunningState(uint64_t word) : word_(word) {}
  __device__ RunningState(Kind kind, const RunningBits& bits)
      : word_(bits.count << 9 | bits.last << 2 | kind) {}
  __device__ Kind kind() const { return static_cast<Kind>(word_ & 3); }
  __device__ RunningBits bits() const {
    return {word_ >> 9, static_cast<uint32_t>(word_ >> 2) & 0x7F};
  }
  __device__ uint64_t word() const { return word_; }

 private:
  uint64_t word_;
};

// Publishes what the warp knows of an item. `states` is device memory with a word for each item,
// which must be zero before the launch. Called by all threads of a warp.
__device__ inline void Publish(uint64_t* states, uint32_t item, const RunningState& state) {
  if (threadIdx.x % 32 == 0) StoreRelaxed(states + item, state.word());
}

// Returns the sum of items [first, item), for all threads of the warp. Waits until each of them, or
// a later one's total, is published. REQUIRES that item `first` is published as a total. Called by
// all threads of a warp.
//
// After `most_waits` looks at the same items, ends the launch with an error, because a program that
// fails is better than a GPU that waits for ever. A look is a load from the L2 cache and a pause,
// hundreds of clock cycles, so the default is about a second, and a launch takes milliseconds.
__device__ inline RunningBits SumOfEarlier(const uint64_t* states, uint32_t first, uint32_t item,
                                           uint32_t most_waits = 1u << 22) {
  constexpr uint32_t kWaitNanoseconds = 32;
  const uint32_t lane = threadIdx.x % 32;
  RunningBits sum;  // of items [end, item)
  for (uint32_t end = item; end != first;) {
    // Each lane looks at one item. Lane 0 has the last of them.
    const bool has_item = lane < end - first;
    RunningState state(0);
    uint32_t totals, needed;  // bits of lanes; needed: up to the nearest total
    for (uint32_t waits = 0;; ++waits) {
      if (has_item) state = RunningState(LoadRelaxed(states + end - 1 - lane));
      totals = __ballot_sync(kAllLanes, state.kind() == RunningState::kTotal);
      needed = totals == 0 ? kAllLanes : totals ^ (totals - 1);
      const uint32_t unknown =
          __ballot_sync(kAllLanes, has_item && state.kind() == RunningState::kUnknown);
      if ((unknown & needed) == 0) break;
      if (waits == most_waits) __trap();
      __nanosleep(kWaitNanoseconds);
    }
    const RunningBits bits = (needed >> lane & 1) != 0 ? state.bits() : RunningBits{};
    const uint64_t sum_up_to_lane = SumUpToThread(bits.count);
    if (sum.count < 7) {  // Bits of these items are among the last seven.
      const uint64_t count_after = sum.count + sum_up_to_lane - bits.count;
      uint32_t last = count_after < 7 ? bits.last >> count_after : 0;
      for (uint32_t distance = 16; distance > 0; distance /= 2)
        last |= __shfl_xor_sync(kAllLanes, last, distance);
      sum.last |= last;
    }
    sum.count += __shfl_sync(kAllLanes, sum_up_to_lane, 31);
    if (totals != 0) break;
    end -= 32;
  }
  return sum;
}

}  // namespace tern::kernels
