// How a lane of a server shard handles the messages of its socket. Two kinds: RoundLane adds up
// over the workers, round by round; ClockLane applies every push as it arrives. One instance per
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "common/protocol/rounds/message.h"

namespace tern::protocol {

// Tests switch these off, one at a time, to show that each is needed.
struct Safeguards {
  bool count_once = true;
  bool fence_incarnations = true;
  bool keep_until_applied = true;
  bool keep_bound = true;   // the bound of ssp
  bool heed_epochs = true;  // of memberships that a lane has not heard of
  bool operator==(const Safeguards&) const = default;
};

class Lane {
 public:
  struct Counters {
    uint64_t counted = 0, repeated = 0, stale = 0, early = 0, fenced = 0, bad = 0, closed = 0,
             restored = 0;
    uint64_t late = 0;                // contributions after their round had closed without them
    uint64_t skipped = 0;             // contributions that announce that they take no part
    uint64_t dropped = 0;             // pushes staler than the job allows
    std::vector<uint64_t> staleness;  // pushes by staleness: 0, 1, ...; the last is for all above
  };

  virtual ~Lane() = default;
  virtual void OnMembers(const pb::Members& members, Sends* out) = 0;
  virtual void OnHello(Peer from, const pb::Hello& hello, Sends* out) = 0;
  // Takes contributions and retained outcomes; refuses anything else.
  virtual void OnMessage(Peer from, const Message& message, Sends* out) = 0;
  // A heartbeat reports what a rank has applied.
  virtual void OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) = 0;
  // Ends the job as soon as it can end in order.
  virtual void OnStop() = 0;

  virtual bool open() const = 0;
  // The newest round that every member has applied; 0 without rounds.
  virtual uint64_t floor() const = 0;
  virtual const Counters& counters() const = 0;
};

}  // namespace tern::protocol
