// The barriers of a block of the simulated GPU and of its warps, and what threads exchange there.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/kernels/cuda_on_host/fibers.h"
#include "tests/kernels/cuda_on_host/streams.h"

namespace cuda_on_host {

constexpr uint32_t kWarpSize = 32;

// Atomic, because all threads of a block share one ThreadIndex on the host; each thread sets it
// whenever the thread begins or continues to run.
struct ThreadIndex {
  std::atomic<uint32_t> x = 0;
};

}  // namespace cuda_on_host

inline thread_local cuda_on_host::ThreadIndex threadIdx;

namespace cuda_on_host {

// Lets the other threads of the block run, which overwrite threadIdx meanwhile.
inline void LetOthersRun() {
  const uint32_t thread = threadIdx.x;
  Fibers::Current().Yield();
  threadIdx.x = thread;
}

// A barrier for all threads of a block.
class Barrier {
 public:
  explicit Barrier(uint32_t num_threads) : num_threads_(num_threads) {}
  void ArriveAndWait() {
    const uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (num_arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_threads_) {
      num_arrived_.store(0, std::memory_order_relaxed);
      phase_.store(phase + 1, std::memory_order_release);
    } else {
      while (phase_.load(std::memory_order_acquire) == phase) LetOthersRun();
    }
    Fibers::Current().NoteProgress();
  }

 private:
  const uint32_t num_threads_;
  std::atomic<uint32_t> num_arrived_ = 0;
  // How often all threads have arrived.
  std::atomic<uint32_t> phase_ = 0;
};

// The calls in which lanes (the threads of a warp) meet.
enum class WarpCall : uint32_t { kSync, kShuffle, kBallot };

// A warp. Only kSync is a fence: the other calls exchange words, but do not order memory. So all
// members are atomic and relaxed, which the thread sanitizer does not take for an order.
class Warp {
 public:
  explicit Warp(uint32_t num_threads)
      : present_(num_threads == kWarpSize ? ~uint32_t{0} : (uint32_t{1} << num_threads) - 1) {}

  // The lane meets the lanes of the mask, and gets its result: of kShuffle the word of lane
  // `source`, of kBallot the lanes whose word is not 0. Fails unless exactly the lanes of the mask
  // meet, all in the same call with the same mask.
  template <WarpCall kCall>
  uint64_t Meet(uint32_t lane, uint32_t mask, uint64_t word, uint32_t source) {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    constexpr bool kIsFence = kCall == WarpCall::kSync;
    const uint64_t call = uint64_t{static_cast<uint32_t>(kCall)} << 32 | mask;
    const uint32_t bit = uint32_t{1} << lane;
    if ((mask & bit) == 0) Fail("a lane is not in the mask that it passes");
    if ((mask & ~present_.load(kRelaxed)) != 0)
      Fail("a mask has lanes that do not exist or have returned");
    Place& own = places_[lane];
    own.word.store(word, kRelaxed);
    own.source.store(source, kRelaxed);
    own.call.store(call, kRelaxed);
    const uint32_t phase = own.phase.load(kRelaxed);
    const uint32_t before =
        arrived_.fetch_or(bit, kIsFence ? std::memory_order_acq_rel : kRelaxed) & mask;
    if ((before | bit) == mask && AreAllIn(call, mask, bit)) {
      arrived_.fetch_and(~mask, kRelaxed);
      SetResults<kCall>(mask);
      for (uint32_t l = 0; l < kWarpSize; ++l) {
        if ((mask >> l & 1) != 0)
          places_[l].phase.fetch_add(1, kIsFence ? std::memory_order_release : kRelaxed);
      }
    } else {
      while (own.phase.load(kIsFence ? std::memory_order_acquire : kRelaxed) == phase)
        LetOthersRun();
    }
    Fibers::Current().NoteProgress();
    return own.result.load(kRelaxed);
  }

  // Called when the lane's thread has returned.
  void Leave(uint32_t lane) {
    present_.fetch_and(~(uint32_t{1} << lane), std::memory_order_relaxed);
  }

 private:
  struct Place {
    std::atomic<uint64_t> word = 0, call = 0, result = 0;
    std::atomic<uint32_t> source = 0, phase = 0;
  };

  // Whether all lanes of the mask wait in the call. Lanes that wait for this one (`bit`) must.
  bool AreAllIn(uint64_t call, uint32_t mask, uint32_t bit) const {
    bool are_all = true;
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      if ((mask >> l & 1) == 0) continue;
      const uint64_t other_call = places_[l].call.load(std::memory_order_relaxed);
      if (other_call == call) continue;
      are_all = false;
      if ((static_cast<uint32_t>(other_call) & bit) != 0)
        Fail("lanes of a warp meet in different calls or with different masks");
    }
    return are_all;
  }

  template <WarpCall kCall>
  void SetResults(uint32_t mask) {
    if constexpr (kCall == WarpCall::kSync) return;
    uint64_t ballot = 0;
    for (uint32_t l = 0; kCall == WarpCall::kBallot && l < kWarpSize; ++l) {
      if ((mask >> l & 1) != 0 && places_[l].word.load(std::memory_order_relaxed) != 0)
        ballot |= uint64_t{1} << l;
    }
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      if ((mask >> l & 1) == 0) continue;
      uint64_t result = ballot;
      if constexpr (kCall == WarpCall::kShuffle) {
        const uint32_t source = places_[l].source.load(std::memory_order_relaxed);
        if ((mask >> source & 1) == 0) Fail("a lane reads from a lane that is not in the mask");
        result = places_[source].word.load(std::memory_order_relaxed);
      }
      places_[l].result.store(result, std::memory_order_relaxed);
    }
  }

  std::atomic<uint32_t> present_;      // The lanes whose threads have not returned.
  std::atomic<uint32_t> arrived_ = 0;  // The lanes that wait for others.
  std::array<Place, kWarpSize> places_;
};

struct Block {
  explicit Block(uint32_t num_threads) : barrier(num_threads) {
    for (uint32_t begin = 0; begin < num_threads; begin += kWarpSize)
      warps.push_back(std::make_unique<Warp>(std::min(kWarpSize, num_threads - begin)));
  }
  Barrier barrier;
  std::vector<std::unique_ptr<Warp>> warps;
};

// The block of the thread that runs now.
inline thread_local Block* block = nullptr;

inline uint32_t MyLane() { return threadIdx.x % kWarpSize; }

template <WarpCall kCall>
uint64_t Meet(uint32_t mask, uint64_t word, uint32_t source) {
  return block->warps[threadIdx.x / kWarpSize]->Meet<kCall>(MyLane(), mask, word, source);
}

// Returns the value that the thread `lane` of this warp passes.
template <typename T>
T ReadFromLane(uint32_t mask, T value, uint32_t lane) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  word = Meet<WarpCall::kShuffle>(mask, word, lane % kWarpSize);
  std::memcpy(&value, &word, sizeof value);
  return value;
}

}  // namespace cuda_on_host
