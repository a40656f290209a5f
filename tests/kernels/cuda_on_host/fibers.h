// Runs the threads of a simulated CUDA block on one host thread. A thread runs on a fiber (a
// separate stack). When the thread waits for other threads of the block, another fiber continues.
// To switch between fibers takes nanoseconds; to switch between host threads would take
// microseconds. The sanitizers learn of each switch. The thread sanitizer takes each fiber for a
// thread. For this sanitizer, only barriers (block.h) order what two fibers of a block do, so the
// sanitizer finds the races that a GPU would have.
#pragma once

#include <atomic>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

// Functions of the sanitizers' runtimes (LLVM's compiler-rt declares them in the folder sanitizer).
// They are null in a program that is built without their sanitizer.
extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom,
                                                  size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack_save, const void** bottom_old,
                                                   size_t* size_old);
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_ignore_thread_begin();
[[gnu::weak]] void __tsan_ignore_thread_end();
}

namespace cuda_on_host {

// A flag of __tsan_switch_to_fiber: the switch itself does not order what the fibers do.
constexpr unsigned kTsanSwitchWithoutSync = 1;

// A stack that code runs on, as the sanitizers know it. The thread sanitizer ignores what happens
// between BeforeSwitch and AfterSwitch, because the sanitizer would attribute it to the wrong
// stack.
class Stack {
 public:
  // Tells the sanitizers that this host thread is about to switch from this stack to `to`.
  void BeforeSwitch(const Stack& to) {
    if (__sanitizer_start_switch_fiber != nullptr)
      __sanitizer_start_switch_fiber(&asan_frames_, to.bottom_, to.bytes_);
    if (__tsan_switch_to_fiber == nullptr) return;
    __tsan_ignore_thread_begin();
    __tsan_switch_to_fiber(to.tsan_fiber_, kTsanSwitchWithoutSync);
  }
  // Tells the sanitizers that this host thread has switched from `from` to this stack.
  void AfterSwitch(Stack& from) {
    if (__sanitizer_finish_switch_fiber != nullptr)
      __sanitizer_finish_switch_fiber(asan_frames_, &from.bottom_, &from.bytes_);
    if (__tsan_switch_to_fiber != nullptr) __tsan_ignore_thread_end();
  }
  // Tells the thread sanitizer that this is the stack of the calling host thread.
  void SetTsanThread() {
    if (__tsan_get_current_fiber != nullptr) tsan_fiber_ = __tsan_get_current_fiber();
  }
  // Tells the thread sanitizer that this is the stack of a fiber to which `host` will switch.
  void CreateTsanFiber(const Stack& host) {
    if (__tsan_create_fiber == nullptr) return;
    tsan_fiber_ = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(tsan_fiber_, kTsanSwitchWithoutSync);
    __tsan_ignore_thread_begin();
    __tsan_switch_to_fiber(host.tsan_fiber_, kTsanSwitchWithoutSync);
  }

 private:
  void* asan_frames_ = nullptr;
  const void* bottom_ = nullptr;
  size_t bytes_ = 0;
  void* tsan_fiber_ = nullptr;
};

// Runs the threads of one block at a time. Only one host thread may use an object at a time. The
// fibers are kept from block to block, and never freed.
class Fibers {
 public:
  Fibers() = default;
  // The fibers that run on this host thread.
  static Fibers& Current() { return *current_fibers; }

  // Runs thread(0), ... thread(num_threads - 1). When a thread calls Yield, other threads go on.
  // Returns when all threads have returned. Aborts if all remaining threads wait at barriers for
  // ever, or if some sleep for longer than most_sleep.
  void Run(uint32_t num_threads, const std::function<void(uint32_t)>& thread) {
    current_fibers = this;
    host_.SetTsanThread();
    thread_ = &thread;
    num_threads_ = num_threads;
    next_thread_ = 0;
    num_finished_ = 0;
    has_slept_ = false;
    num_runs_.fetch_add(1, std::memory_order_release);
    while (num_finished_.load(std::memory_order_acquire) < num_threads) {
      made_progress_.store(false, std::memory_order_relaxed);
      for (size_t i = 0; i < fibers_.size() || HasNextThread(); ++i) {
        if (i == fibers_.size()) fibers_.push_back(std::make_unique<Fiber>(*this));
        if (fibers_[i]->is_in_thread.load(std::memory_order_relaxed) || HasNextThread())
          Resume(*fibers_[i]);
      }
      if (!made_progress_.load(std::memory_order_relaxed)) {
        std::fputs("threads of this kernel wait at a barrier that others never reach\n", stderr);
        std::abort();
      }
    }
  }

  // Called by a thread that Run runs: lets the other threads go on, and returns when the caller's
  // turn has come again.
  void Yield() { SwitchToHost(*current_.load(std::memory_order_relaxed)); }

  // Called by a thread in a loop in which it waits for other threads, also of other blocks.
  void Sleep() {
    const auto now = std::chrono::steady_clock::now();
    if (!has_slept_.exchange(true, std::memory_order_relaxed)) first_sleep_.store(now);
    if (now - first_sleep_.load() > most_sleep.load()) {
      std::fputs("threads of this kernel wait for something that never comes\n", stderr);
      std::abort();
    }
    NoteProgress();
  }
  // How long the threads of a block may be in such loops, from the first of them on.
  static inline std::atomic<std::chrono::milliseconds> most_sleep{std::chrono::seconds{100}};

  // Records that a thread has begun or passed a barrier.
  void NoteProgress() { made_progress_.store(true, std::memory_order_relaxed); }

 private:
  struct Fiber {
    explicit Fiber(Fibers& all)
        : context(std::allocator_arg, boost::context::protected_fixedsize_stack(kStackBytes),
                  [this, &all](boost::context::fiber&& host) {
                    host_context = std::move(host);
                    stack.AfterSwitch(all.host_);
                    all.RunThreads(*this);
                    return std::move(host_context);
                  }) {
      stack.CreateTsanFiber(all.host_);
    }
    boost::context::fiber context, host_context;
    Stack stack;
    // Whether this fiber runs a thread that has not returned.
    std::atomic<bool> is_in_thread = false;
  };
  static constexpr size_t kStackBytes = size_t{256} << 10;
  static inline thread_local Fibers* current_fibers = nullptr;

  bool HasNextThread() const {
    return next_thread_.load(std::memory_order_relaxed) <
           num_threads_.load(std::memory_order_relaxed);
  }

  void Resume(Fiber& fiber) {
    current_.store(&fiber, std::memory_order_relaxed);
    host_.BeforeSwitch(fiber.stack);
    fiber.context = std::move(fiber.context).resume();
    host_.AfterSwitch(fiber.stack);
  }
  void SwitchToHost(Fiber& fiber) {
    fiber.stack.BeforeSwitch(host_);
    fiber.host_context = std::move(fiber.host_context).resume();
    fiber.stack.AfterSwitch(host_);
  }

  // What a fiber does: runs threads of the current block that no fiber has begun, one after the
  // other. With the thread sanitizer, a fiber runs only one thread of each block, because the
  // sanitizer finds no races between two threads on the same fiber.
  [[noreturn]] void RunThreads(Fiber& fiber) {
    const bool sees_races = __tsan_switch_to_fiber != nullptr;
    while (true) {
      num_runs_.load(std::memory_order_acquire);
      fiber.is_in_thread.store(true, std::memory_order_relaxed);
      do {
        NoteProgress();
        (*thread_.load(std::memory_order_relaxed))(
            next_thread_.fetch_add(1, std::memory_order_relaxed));
        num_finished_.fetch_add(1, std::memory_order_release);
      } while (!sees_races && HasNextThread());
      fiber.is_in_thread.store(false, std::memory_order_relaxed);
      SwitchToHost(fiber);
    }
  }

  // Some members are atomic, so that no switch has to order the fibers for the thread sanitizer.
  std::atomic<const std::function<void(uint32_t)>*> thread_ = nullptr;
  std::atomic<uint32_t> num_threads_ = 0, next_thread_ = 0, num_finished_ = 0;
  std::atomic<uint64_t> num_runs_ = 0;
  std::atomic<bool> made_progress_ = false, has_slept_ = false;
  std::atomic<std::chrono::steady_clock::time_point> first_sleep_;
  std::atomic<Fiber*> current_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Stack host_;
};

}  // namespace cuda_on_host
