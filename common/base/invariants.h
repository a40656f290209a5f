// Invariants of state machines, checked after every event in debug builds, and where a test or the
// simulator asks for it. A release build checks nothing, so input from a user or a peer cannot end
// the process through a check.
//
//   Status Check() const;                      ok, or kInternal with the broken invariant, its
//                                              place and the values. Made with TERN_HOLDS
//   void OnEvent() {
//     const CheckedAfter checked(*this);       first line of every method that takes an event
//     TERN_REQUIRES(round > floor, "...");     what the header REQUIRES of the caller
#pragma once

#include <atomic>

#include "common/base/status.h"
#include "common/base/text.h"

namespace tern {

// A function that is called with each broken invariant, on the thread of its state machine.
using OnBroken = void (*)(const Status& broken);

// Sets the function for the whole process, and returns the one set before. null: nothing is
// checked. At the start it is null in release builds; in others, a function that ends the process.
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

// For use in Check(): returns kInternal from it unless the condition holds. The other arguments are
// the parts of the error message, for Cat (text.h); they are evaluated only then.
#define TERN_HOLDS(condition, ...)                                                              \
  do {                                                                                          \
    if (!(condition)) return ::tern::Status(::tern::Code::kInternal, ::tern::Cat(__VA_ARGS__)); \
  } while (false)

// Reports a caller that breaks the contract of a method: the condition does not hold. Evaluates
// nothing while checking is off (SetOnBroken(null)).
#define TERN_REQUIRES(condition, ...)                                                \
  do {                                                                               \
    if (const ::tern::OnBroken tern_told_ =                                          \
            ::tern::invariants_internal::on_broken.load(std::memory_order_relaxed);  \
        tern_told_ != nullptr && !(condition))                                       \
      tern_told_(::tern::Status(::tern::Code::kInternal, ::tern::Cat(__VA_ARGS__))); \
  } while (false)
