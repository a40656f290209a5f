#include "tests/kernels/cuda_on_host/grid.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "tests/kernels/cuda_on_host/block.h"
#include "tests/kernels/cuda_on_host/streams.h"

namespace cuda_on_host {
namespace {

struct Grid {
  uint32_t num_blocks = 0, num_threads = 0;
  const std::function<void()>& thread;
};

void RunBlocks(const Grid& grid, std::span<const uint32_t> numbers, Fibers* fibers) {
  gridDim = dim3(grid.num_blocks);
  blockDim = dim3(grid.num_threads);
  for (const uint32_t number : numbers) {
    Block new_block(grid.num_threads);
    block = &new_block;
    blockIdx = dim3(number, 0, 0);
    fibers->Run(grid.num_threads, [&](uint32_t thread) {
      threadIdx.x = thread;
      grid.thread();
      new_block.warps[thread / kWarpSize]->Leave(thread % kWarpSize);
    });
  }
}

// A second host thread that runs blocks. It lives as long as the process.
class Helper {
 public:
  static Helper& Get() {
    static auto* helper = new Helper;
    return *helper;
  }
  // Returns when the helper is about to run the blocks: what this thread does from then until Await
  // is not ordered with them. Await waits until it has run them.
  void Start(const Grid& grid, std::span<const uint32_t> numbers) {
    has_begun_ = false;
    {
      const std::lock_guard lock(mutex_);
      grid_ = &grid;
      numbers_ = numbers;
      changed_.notify_all();
    }
    has_begun_.wait(false);
  }
  void Await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return grid_ == nullptr; });
  }

 private:
  Helper() {
    std::thread([this] { Loop(); }).detach();
  }
  void Loop() {
    Fibers fibers;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return grid_ != nullptr; });
      lock.unlock();
      has_begun_ = true;
      has_begun_.notify_all();
      RunBlocks(*grid_, numbers_, &fibers);
      lock.lock();
      grid_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const Grid* grid_ = nullptr;
  std::span<const uint32_t> numbers_;
  std::atomic<bool> has_begun_ = false;  // Apart from the lock, which also orders the end.
};

}  // namespace

void RunGrid(uint32_t num_blocks, uint32_t num_threads, const std::function<void()>& thread) {
  static auto* fibers = new Fibers;
  std::vector<uint32_t> numbers(num_blocks);
  std::iota(numbers.begin(), numbers.end(), 0u);
  std::shuffle(numbers.begin(), numbers.end(), Device::Get().random());
  const Grid grid{num_blocks, num_threads, thread};
  const bool has_helper = __tsan_switch_to_fiber != nullptr && num_blocks > 1;
  const std::span<const uint32_t> all(numbers);
  const size_t num_own = has_helper ? num_blocks / 2 : num_blocks;
  if (has_helper) Helper::Get().Start(grid, all.subspan(num_own));
  RunBlocks(grid, all.first(num_own), fibers);
  if (has_helper) Helper::Get().Await();
}

}  // namespace cuda_on_host
