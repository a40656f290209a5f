// Invariants of state machines, checked after every event in debug builds, and where a test or the
// simulator asks for it. Otherwise a release build checks nothing, so input from a user or a peer
// cannot end the process through a check.
//
//   Status Check() const;                                Tests all invariants with TERN_HOLDS.
//   void OnEvent() {                                     A method that handles an event.
//     const CheckInvariantsAtScopeEnd checked(*this);    Its first line: calls Check() at the end.
//     TERN_REQUIRES(round > floor, "...");               Tests what the header REQUIRES.
//   }
//
// Check() returns ok, or kInternal with the broken invariant and its values.
#pragma once

#include <atomic>

#include "common/base/status.h"
#include "common/base/text.h"

namespace tern {

// A function that is called with each broken invariant, on the thread of its state machine.
using InvariantHandler = void (*)(const Status& violation);

// Sets the function for the whole process, and returns the previous one. With null, nothing is
// checked. Initially the function is null in release builds; in debug builds it ends the process.
InvariantHandler SetInvariantHandler(InvariantHandler handler);

namespace invariants_internal {

extern std::atomic<InvariantHandler> current_handler;

}  // namespace invariants_internal

// A scope guard: checks the invariants of `machine` when the scope ends, and passes a broken one to
// the function of SetInvariantHandler.
template <typename Machine>
class CheckInvariantsAtScopeEnd {
 public:
  explicit CheckInvariantsAtScopeEnd(const Machine& machine) : machine_(machine) {}
  CheckInvariantsAtScopeEnd(const CheckInvariantsAtScopeEnd&) = delete;
  CheckInvariantsAtScopeEnd& operator=(const CheckInvariantsAtScopeEnd&) = delete;
  ~CheckInvariantsAtScopeEnd() {
    const InvariantHandler handler =
        invariants_internal::current_handler.load(std::memory_order_relaxed);
    if (handler == nullptr) return;
    if (const Status status = machine_.Check(); !status.ok()) handler(status);
  }

 private:
  const Machine& machine_;
};

}  // namespace tern

// For use in Check(): unless the condition holds, makes Check() return kInternal. The other
// arguments are concatenated to the error message; they are evaluated only if the condition does
// not hold.
#define TERN_HOLDS(condition, ...)                                                              \
  do {                                                                                          \
    if (!(condition)) return ::tern::Status(::tern::Code::kInternal, ::tern::Cat(__VA_ARGS__)); \
  } while (false)

// Reports a broken contract to the function of SetInvariantHandler: the caller of a method did not
// fulfil the condition. Evaluates nothing while that function is null.
#define TERN_REQUIRES(condition, ...)                                                     \
  do {                                                                                    \
    if (const ::tern::InvariantHandler tern_handler_ =                                    \
            ::tern::invariants_internal::current_handler.load(std::memory_order_relaxed); \
        tern_handler_ != nullptr && !(condition))                                         \
      tern_handler_(::tern::Status(::tern::Code::kInternal, ::tern::Cat(__VA_ARGS__)));   \
  } while (false)
