// A worker's half of the rounds: what it contributed and has no answer to, and the answers that it
// still holds for others. One owner, no thread of its own.
//
// A contribution:  waiting --(credit, lane up)--> sent --(outcome)--> done
//                     ^                            | repeated when its lane has said nothing for
//                     +----------------------------+ `resend_after`, and when it comes up again
// An outcome:      held until the floor reaches its round; given to a server that comes back
//                  without it, again and again until that server says that it has it.
//
// Where rounds may close without this worker (`unsolicited`) an outcome is delivered, once, also if
// this worker has not contributed; what it contributes after that is late: counted, and the server
// is told, but it has no place any more. Figures are delivered to those who gave some.
//
// Without rounds an answer may be a difference to what this worker holds. So an answer that is
// repeated is no answer to the next pull, and what one life of a server gave is not held against
// another's. Of a cell's answers to pushes the clock of the newest is held (and whether this worker
// has parted), which another life of its server cannot know: who waits there for this worker would
// wait for ever.
//
// Credit: bytes of pushes sent on a lane and not answered are at most `credit_bytes`, except that a
// push which comes before all of those in plan order may always go. So the first cell that is not
// closed gets its pushes from everybody, although scalers do not come back to all workers in the
// same order; a server holds at most about workers * credit a lane.
//
// Priority: of the pushes that wait for credit an older round's go first, in a round those of the
// last bucket, which has the first tensors: their layers are the first that the next forward needs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "common/protocol/cells.h"
#include "common/protocol/message.h"

namespace tern::protocol {

class Exchange {
 public:
  struct Options {
    uint32_t rank = 0;
    uint64_t incarnation = 0;
    uint64_t credit_bytes = 16 << 20;
    Time resend_after{};
    bool unsolicited = false;
    // With `unsolicited`: whether there is such a cell at that lane; empty: any may be.
    std::function<bool(const Cell&, LaneRef)> in_plan = nullptr;
  };
  struct Outgoing {
    LaneRef lane;
    Message message;
  };
  // An answer, delivered once.
  struct Delivery {
    Cell cell;
    pb::Outcome outcome;
    Bytes payload;
  };

  explicit Exchange(Options options) : options_(std::move(options)) {}

  // REQUIRES not contributed before, but for pulls: the newest counts. `digest` is of the scalers
  // used (push).
  void Contribute(const Cell& cell, uint64_t round, LaneRef lane, uint64_t digest, Bytes payload,
                  Time now, std::vector<Outgoing>* out, const Request& request = {});
  // Returns the answer if this worker waits for it, or needs it.
  std::vector<Delivery> OnOutcome(LaneRef lane, Kind kind, const pb::Outcome& outcome,
                                  const Bytes& payload, Time now, std::vector<Outgoing>* out);
  // The server has what it was given.
  void OnHeldTaken(LaneRef lane, Kind kind, const pb::Outcome& outcome);
  // Hello was answered. A server that was not known before on this lane gets what is held.
  void OnLaneUp(LaneRef lane, uint64_t server_incarnation, Time now, std::vector<Outgoing>* out);
  void OnLaneDown(LaneRef lane);
  // The server has room for what it turned away as early.
  void OnRoomAgain(LaneRef lane, Time now, std::vector<Outgoing>* out);
  void OnFloor(uint64_t floor);
  void OnTimer(Time now, std::vector<Outgoing>* out);
  // REQUIRES every answer of the rounds up to `applied` delivered: whoever gets this worker's state
  // contributes to none of them again. (With `unsolicited`: every answer that it takes to apply
  // them; what is not answered yet is not needed any more.)
  void SetApplied(uint64_t applied);
  // After State: what older rounds left is void.
  void Restart(uint64_t applied);
  void SetIncarnation(uint64_t incarnation) { options_.incarnation = incarnation; }

  uint64_t applied() const { return applied_; }
  uint64_t floor() const { return floor_; }
  bool idle() const { return waiting_.empty(); }
  size_t held() const { return held_.size(); }
  // The newest round that an outcome of this lane is held of; 0: none.
  uint64_t newest_held(LaneRef lane) const;
  uint64_t resent() const { return resent_; }
  // Rounds that closed without a push of this worker that came later.
  uint64_t late() const { return late_; }

 private:
  struct Waiting {
    LaneRef lane;
    uint64_t digest = 0;
    Bytes payload;
    Request request;
    uint64_t pull = 0;  // pull_only: which
    bool sent = false;
    Time sent_at{};
  };
  struct Held {
    LaneRef lane;
    pb::Outcome outcome;
    Bytes payload;
    bool offered = false;  // given to a server that has not said that it has it
    Time offered_at{};
  };
  struct LaneState {
    bool up = false;
    uint64_t server_incarnation = 0;
    uint64_t told_as = 0;           // this worker's, when the lane came up last
    uint64_t unanswered_bytes = 0;  // of pushes
    Time heard_at{};                // its newest outcome: while some come, a slow link is no loss
  };
  // Order of sending: rounds, then by priority.
  struct Key {
    uint64_t round = 0;
    Cell cell;
    auto Order() const { return std::tuple(round, cell.kind, ~cell.bucket, cell.chunk); }
    auto operator<=>(const Key& other) const { return Order() <=> other.Order(); }
  };

  void AddRequest(const Cell& cell, const Waiting& waiting, pb::Contribution* c) const;
  Message MakeContribution(const Key& key) const;
  void OnLate(const Key& key, LaneRef lane, std::vector<Outgoing>* out);
  void CountLate(const Key& key);
  // Whether it answers what waits for an outcome of its cell and round.
  static bool Answers(const pb::Outcome& outcome, LaneRef lane, const Waiting& waiting);
  // Whether an outcome that nothing waits for is to be delivered.
  bool Wants(const Key& key, LaneRef lane) const;
  void HoldClock(const Key& key, LaneRef lane, bool parted);
  void Offer(const Key& key, Held* held, Time now, std::vector<Outgoing>* out);
  void Drop(const Key& key);
  void SendWaiting(const Key& key, Waiting* waiting, Time now, std::vector<Outgoing>* out);
  // Of the lane's pushes without an answer the first in plan order; nullptr: there is none.
  std::pair<const Key, Waiting>* FirstPush(LaneRef lane);
  void SendWhatCreditAllows(LaneRef lane, Time now, std::vector<Outgoing>* out);

  Options options_;
  uint64_t applied_ = 0;
  uint64_t floor_ = 0;
  uint64_t resent_ = 0;
  uint64_t late_ = 0, newest_late_ = 0;  // how many rounds, and which
  std::map<Key, Waiting> waiting_;
  std::map<Key, Held> held_;
  std::map<LaneRef, LaneState> lanes_;
  // Algorithms without rounds: of the weights that this worker was given last, by cell; its pulls.
  struct Version {
    LaneRef lane;
    uint64_t version = 0;
  };
  std::map<Cell, Version> versions_;
  std::map<Cell, uint64_t> clocks_;  // of the newest answers to pushes
  uint64_t pulls_ = 0;
};

}  // namespace tern::protocol
