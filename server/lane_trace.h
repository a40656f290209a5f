// Shows in a trace (common/base/trace.h) what a thread of a server does with the contributions of
// workers.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/trace.h"
#include "common/protocol/rounds/cell_sum.h"

namespace tern::server {

// Belongs to one thread, which has a TraceThread. A worker records only some of its steps, and a
// server does not know which; so it records as many exchanges of each worker as include them.
class LaneTrace {
 public:
  explicit LaneTrace(uint32_t workers);

  // Call with each message when it has been received; `begin` is TraceBegin() before that. Records
  // the reception if the message is a contribution, other than figures, to one of the first
  // TraceSteps() + kTraceWarmUpSteps exchanges of its worker. Else nothing that the thread does is
  // recorded until the next call.
  void OnReceived(Time begin, const pb::Envelope& head);
  // What the newest message is about.
  const TraceArgs& args() const { return args_; }

 private:
  // The first and the newest exchange of a worker; 0: none yet.
  struct Exchanges {
    uint64_t first = 0, newest = 0;
  };
  // Whether the contribution is to be recorded; sets args_.
  bool Records(const pb::Envelope& head);

  const uint64_t max_exchanges_;  // 0: nothing is recorded
  std::vector<Exchanges> exchanges_by_rank_;
  TraceArgs args_;
};

// Lets the trace show when a round of these cells closes, if this process is recorded.
void TraceCloses(std::vector<protocol::CellSpec>* cells);

}  // namespace tern::server
