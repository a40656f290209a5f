// Invariants of state machines, checked after every event in debug builds, and where a test or the
// simulator asks for it. A release checks nothing: what a user or a peer says ends no process.
//
//   Status Check() const;                      ok, or kInternal: the broken invariant, where, and
//                                              both numbers. Built of TERN_HOLDS
//   void OnEvent() {
//     const CheckedAfter checked(*this);       first line of every method that takes an event
//     TERN_REQUIRES(round > floor, "...");     what the header REQUIRES of the caller
#pragma once

#include <atomic>

#include "common/base/status.h"
#include "common/base/text.h"

namespace tern {

// Hears what is broken, on the thread that owns the machine.
using OnBroken = void (*)(const Status& broken);

// Who hears of it from now on, in the whole process; null: nobody, and nothing is checked. Returns
// who heard before. At start: null in release builds; in others, one that ends the process.
OnBroken SetOnBroken(OnBroken now);

namespace invariants_internal {

extern std::atomic<OnBroken> on_broken;

}  // namespace invariants_internal

template <typename Machine>
class CheckedAfter {
 public:
  explicit CheckedAfter(const Machine& machine) : machine_(machine) {}
  CheckedAfter(const CheckedAfter&) = delete;
  CheckedAfter& operator=(const CheckedAfter&) = delete;
  ~CheckedAfter() {
    const OnBroken told = invariants_internal::on_broken.load(std::memory_order_relaxed);
    if (told == nullptr) return;
    if (const Status status = machine_.Check(); !status.ok()) told(status);
  }

 private:
  const Machine& machine_;
};

}  // namespace tern

// In Check(): the parts of a sentence (as of Cat), read only if the condition does not hold.
#define TERN_HOLDS(condition, ...)                                                              \
  do {                                                                                          \
    if (!(condition)) return ::tern::Status(::tern::Code::kInternal, ::tern::Cat(__VA_ARGS__)); \
  } while (false)

// Where machines are checked: reports a caller that breaks the contract. The condition is not read
// where they are not.
#define TERN_REQUIRES(condition, ...)                                                \
  do {                                                                               \
    if (const ::tern::OnBroken tern_told_ =                                          \
            ::tern::invariants_internal::on_broken.load(std::memory_order_relaxed);  \
        tern_told_ != nullptr && !(condition))                                       \
      tern_told_(::tern::Status(::tern::Code::kInternal, ::tern::Cat(__VA_ARGS__))); \
  } while (false)
