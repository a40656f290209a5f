// The state machine behind one socket of a server shard. There are two kinds: RoundLane adds up
// contributions over the workers, round by round; ClockLane applies a push when it arrives. One
// thread calls an instance. A slot is one reduction over the workers in one round. A clock is a
// worker's count of its own exchanges, in jobs without rounds. A rank is the number of a worker. An
// incarnation is a random number that names a process; a lost worker that joins again gets a new
// one.
#pragma once

#include <cstdint>
#include <vector>

#include "common/protocol/rounds/message.h"

namespace tern::protocol {

// Servers keep fewer rounds than this beyond the floor (the newest round that all members have
// applied), so an outcome further ahead of a worker is invalid.
inline constexpr uint64_t kMaxRoundsAhead = 64;

// Rules of the protocol. Tests switch them off, one at a time, to show that each is needed.
struct Safeguards {
  bool count_once = true;  // a repeated contribution is not counted again
  // Messages of an older incarnation of a rank are refused. If this is off, fence_connections is,
  // too.
  bool fence_incarnations = true;
  // A message of a member counts only if it comes on the connection of that member's hello.
  bool fence_connections = true;
  // A second process does not get the place of a server shard that is alive.
  bool fence_shards = true;
  // Before the job runs, a process that claims a newer membership replaces a worker only if it
  // knows the run.
  bool ask_for_run = true;
  // No worker is lost while shard 0 hears none of those that hold the state of the job.
  bool heed_own_silence = true;
  // When a job without rounds ends, shard 0 names the step of the last checkpoint of all shards.
  bool name_last_step = true;
  bool keep_until_applied = true;  // an outcome is kept until all members have applied it
  // ssp (stale synchronous parallel) delays answers to fast workers
  bool delay_fast_workers = true;
  // A contribution of a newer membership, coded with other scalers (scale factors) than those of
  // its slot, is refused until the lane knows that membership.
  bool heed_epochs = true;
  bool checks_connections() const { return fence_incarnations && fence_connections; }
  bool operator==(const Safeguards&) const = default;
};

class Lane {
 public:
  struct Counters {
    uint64_t counted = 0;   // contributions that were added or applied
    uint64_t repeated = 0;  // contributions that had been counted before
    uint64_t stale = 0;     // refused contributions to rounds or clocks that are over
    uint64_t early = 0;   // contributions refused for now: too far ahead, or of a newer membership
    uint64_t fenced = 0;  // refused contributions, not from the rank's current incarnation
    uint64_t bad = 0;     // refused messages that are invalid
    uint64_t closed = 0;  // slots that closed
    uint64_t restored = 0;   // outcomes that workers handed back to this server after its restart
    uint64_t late = 0;       // contributions to rounds that had closed without them
    uint64_t host_sums = 0;  // sums of several workers of a host that were added
    uint64_t split =
        0;  // sums of a host that were refused, because some of their ranks had counted
    uint64_t skipped = 0;  // messages with which a worker declines to contribute
    uint64_t dropped = 0;  // pushes that were staler than the job allows
    // Histogram of the staleness of pushes: bin i counts those of staleness i; the last bin also
    // counts all staler ones.
    std::vector<uint64_t> staleness;
  };

  virtual ~Lane() = default;
  // Handles a change of the membership, which shard 0 (the first server process) decides.
  virtual void OnMembers(const pb::Members& members, Sends* out) = 0;
  // Handles the hello of a worker on this lane.
  virtual void OnHello(Peer from, const pb::Hello& hello, Sends* out) = 0;
  // Handles contributions, and outcomes that workers hand back; refuses any other message.
  virtual void OnMessage(Peer from, const Message& message, Sends* out) = 0;
  // A heartbeat reports that a rank has applied all rounds up to `applied`.
  virtual void OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) = 0;
  // Handles a stop request: the job ends soon.
  virtual void OnStop() = 0;
  // Handles a request for a checkpoint of all daemons soon.
  virtual void OnCheckpointRequest() {}

  // Whether every member has said hello, so that the lane handles contributions.
  virtual bool open() const = 0;
  // The newest round that every member is known to have applied; 0 in a job without rounds.
  virtual uint64_t floor() const = 0;
  virtual const Counters& counters() const = 0;
};

}  // namespace tern::protocol
