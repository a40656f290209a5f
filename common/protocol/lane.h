// The round machine of one lane of a server shard: everything that arrives at one socket and is
// added up over the workers (scalers and figures on control, pushes on a data socket). One instance
// a thread.
//
// A cell of a round is a slot:
//
//        first contribution       all N have come, or a worker
//   (none) -------------> open -------------------------------> closed -------------> gone
//      |                          held it for a restarted server ^   floor at the round
//      +---------------------------------------------------------+
//
//   open:   a contribution counts once; a repeated one is dropped; one that cannot be is refused,
//           and the slot starts again from nothing (workers repeat what is not answered)
//   closed: the outcome is kept, and sent again to whoever repeats a contribution
//
// The floor is the least applied round over the members. It stands still while a member that
// replaced another has not shown what it has applied (it may get State as old as the floor). A lane
// is born blank and opens when every member has said hello on it, so a restarted server knows its
// floor before it takes anything: the least applied round, or 0 while a member has not shown its
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/message.h"

namespace tern::protocol {

// Adds up the contributions to one slot.
class CellSum {
 public:
  virtual ~CellSum() = default;
  // A Status (the payload is not a possible contribution) ends the use of this sum. REQUIRES each
  // rank at most once.
  virtual Status Add(uint32_t rank, const Bytes& payload) = 0;
  // REQUIRES all ranks added.
  virtual Bytes Close() = 0;
};

struct CellSpec {
  Cell cell;
  std::function<std::unique_ptr<CellSum>()> open;
  // Whether bytes could be an outcome of this cell: what a worker hands back is checked before it
  // is used.
  std::function<Status(const Bytes&)> check_outcome;
};

// Taken out by tests, one at a time, to show that each is needed.
struct Safeguards {
  bool count_once = true;
  bool fence_incarnations = true;
  bool keep_until_applied = true;
};

class Lane {
 public:
  struct Options {
    uint32_t workers = 1;
    uint32_t window = 1;  // rounds that a worker may have open: 1, for OD-SGD 2
    uint64_t incarnation = 0;
    std::vector<uint32_t> data_ports;  // told in Welcome; control only
    bool welcomes = true;  // data lanes answer hellos themselves; on control the coordinator does
    std::function<double(uint64_t round)> learning_rate;  // shard 0 only
    bool leads = false;  // owns the cell whose closing decides the last round after a stop request
    Safeguards safeguards;
  };
  struct Counters {
    uint64_t counted = 0, repeated = 0, stale = 0, early = 0, fenced = 0, bad = 0, closed = 0,
             restored = 0;
  };

  Lane(Options options, std::vector<CellSpec> cells);

  void OnMembers(const pb::Members& members, Sends* out);
  void OnHello(Peer from, const pb::Hello& hello, Sends* out);
  // Contributions and held outcomes; anything else is refused.
  void OnMessage(Peer from, const Message& message, Sends* out);
  // What a heartbeat says of a rank.
  void OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied);
  // The next round of the leading cell to close is the job's last.
  void OnStop() { stop_requested_ = true; }

  bool open() const { return open_; }
  uint64_t floor() const { return floor_; }
  const Counters& counters() const { return counters_; }
  // Slots of the cell that has most; at most 2 * window + 2.
  size_t slots() const;
  // Ranks whose contribution to the oldest open slot is missing, for messages.
  std::vector<uint32_t> Missing() const;

 private:
  struct Member {
    uint64_t incarnation = 0;  // 0: nobody
    Peer peer = 0;
    bool greeted = false;  // has said hello on this lane
    bool known = false;    // `applied` is of this incarnation
    uint64_t applied = 0;
  };
  struct Slot {
    std::unique_ptr<CellSum> sum;  // while open
    std::vector<bool> counted;
    uint32_t count = 0;
    uint64_t digest = 0;
    bool closed = false;
    pb::Outcome outcome;
    Bytes payload;
  };
  struct CellState {
    CellSpec spec;
    std::map<uint64_t, Slot> slots;  // by round
  };

  void OnContribution(Peer from, Kind kind, const pb::Contribution& c, const Bytes& payload,
                      Sends* out);
  void OnHeld(Peer from, Kind kind, const pb::Outcome& outcome, const Bytes& payload, Sends* out);
  // The slot of a contribution, opened if need be; null where it was refused as stale or early.
  Slot* SlotFor(Peer from, CellState* state, const pb::Contribution& c, Sends* out);
  void CountIn(Peer from, CellState* state, Slot* slot, const pb::Contribution& c,
               const Bytes& payload, Sends* out);
  void Close(CellState* cell, uint64_t round, Slot* slot, Sends* out);
  void SendOutcome(const CellState& cell, const Slot& slot, Peer to, Sends* out) const;
  void SendTaken(Peer to, Kind kind, const pb::Outcome& held, Sends* out) const;
  void OpenIfComplete(Sends* out);
  void Welcome(Peer to, Sends* out) const;
  void AdvanceFloor();
  Member* FencedMember(uint32_t rank, uint64_t incarnation);
  CellState* Find(const Cell& cell);

  Options options_;
  std::map<Cell, CellState> cells_;
  std::vector<Member> members_;
  uint64_t epoch_ = 0;
  uint64_t floor_ = 0;
  bool open_ = false;
  bool stop_requested_ = false;
  uint64_t stop_after_ = 0;  // 0: not decided
  Counters counters_;
};

}  // namespace tern::protocol
