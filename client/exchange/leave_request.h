// When a worker that a signal asked to leave (faults.worker_signal: leave) leaves: after its round
// or, if the round then waits for a lost worker, without its end.
#pragma once

#include <optional>
#include <utility>

#include "client/exchange/port.h"
#include "common/base/status.h"
#include "common/protocol/members/timings.h"

namespace tern::client {

class LeaveRequest {
 public:
  // `patience`: how long the round may go on after the signal.
  explicit LeaveRequest(protocol::Time patience) : patience_(patience) {}

  // The signal has arrived; `status` is that with which the worker ends.
  void Begin(Status status, protocol::Time now) {
    status_ = std::move(status);
    since_ = now;
  }
  // The event that is due now: one at the signal, and one, with `at_once`, after the patience.
  std::optional<LeaveWanted> TakeDue(protocol::Time now) {
    if (status_.ok() || num_taken_ == 2 || (num_taken_ == 1 && now - since_ <= patience_))
      return std::nullopt;
    return LeaveWanted{.status = status_, .at_once = num_taken_++ == 1};
  }

 private:
  const protocol::Time patience_;
  Status status_;  // kOk: no signal has arrived
  protocol::Time since_{};
  int num_taken_ = 0;
};

}  // namespace tern::client
