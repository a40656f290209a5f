// A worker's half of the rounds: its contributions that are not answered yet, and the answers that
// it retains for others. One owner, no thread of its own.
//
//   A contribution:  waiting --(credit, lane up)--> sent --(outcome)--> done
//                       ^                            | its lane has been silent for `resend_after`,
//                       +----------------------------+ or comes up again: it is sent again
//   An outcome:      retained until the floor reaches its round. A server that comes back without
//                    it gets it, repeatedly, until it confirms that it has it
//
// If rounds may close without this worker (`unsolicited`), an outcome is delivered, once, even if
// this worker has not contributed. A later contribution of this worker is late: it is counted, and
// the server is told, but it is not added. Figures are delivered only to workers that contributed
// some.
//
// Without rounds an answer may be a difference to the weights that this worker holds. Therefore a
// repeated answer does not answer the next pull, and versions from one incarnation of a server are
// not used with another. Of each cell the clock of the newest answer to a push is retained (and
// whether this worker has left, `parted`): a restarted server may not know it, and would let others
// wait for this worker for ever.
//
// Credit: the bytes of unanswered pushes on a lane are at most `credit_bytes`, except that the
// first of them in plan order may always be sent. So all workers push to the first open cell,
// although scalers do not come back to all of them in the same order; a server holds at most about
// workers * credit bytes per lane.
//
// Priority: of the pushes that wait for credit, those of older rounds go first, and in a round
// those of the last bucket, which has the first tensors: the next forward needs their layers first.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

class Exchange {
 public:
  struct Options {
    uint32_t rank = 0;
    uint64_t incarnation = 0;
    uint64_t credit_bytes = 16 << 20;
    Time resend_after{};
    bool unsolicited = false;
    // With `unsolicited`: whether the lane has such a cell; empty: not checked.
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

  // REQUIRES no earlier contribution to this cell and round, except for pulls, where a new one
  // replaces the last. `digest`: of the scalers used (push).
  void Contribute(const Cell& cell, uint64_t round, LaneRef lane, uint64_t digest, Bytes payload,
                  Time now, std::vector<Outgoing>* out, const Request& request = {});
  // Returns the answer if this worker waits for it, or needs it; else nothing.
  std::vector<Delivery> OnOutcome(LaneRef lane, Kind kind, const pb::Outcome& outcome,
                                  const Bytes& payload, Time now, std::vector<Outgoing>* out);
  // The server has what was offered to it.
  void OnHeldTaken(LaneRef lane, Kind kind, const pb::Outcome& outcome);
  // The lane's hello was answered. A new incarnation of the server is offered what is retained.
  void OnLaneUp(LaneRef lane, uint64_t server_incarnation, Time now, std::vector<Outgoing>* out);
  void OnLaneDown(LaneRef lane);
  // The server has room again for contributions that it refused as early.
  void OnRoomAgain(LaneRef lane, Time now, std::vector<Outgoing>* out);
  void OnFloor(uint64_t floor);
  void OnTimer(Time now, std::vector<Outgoing>* out);
  // REQUIRES that every answer of the rounds up to `applied` was delivered: whoever gets this
  // worker's state does not contribute to them again. (With `unsolicited`: every answer needed to
  // apply them; contributions still unanswered then are dropped.)
  void SetApplied(uint64_t applied);
  // A new State was installed: everything of earlier rounds is void.
  void Restart(uint64_t applied);
  void SetIncarnation(uint64_t incarnation) { options_.incarnation = incarnation; }

  uint64_t applied() const { return applied_; }
  uint64_t floor() const { return floor_; }
  bool idle() const { return waiting_.empty(); }
  size_t held() const { return held_.size(); }
  // The newest round of which an outcome of this lane is retained; 0: none.
  uint64_t newest_held(LaneRef lane) const;
  uint64_t resent() const { return resent_; }
  // Rounds that closed before this worker's push arrived.
  uint64_t late() const { return late_; }

 private:
  struct Waiting {
    LaneRef lane;
    uint64_t digest = 0;
    Bytes payload;
    Request request;
    uint64_t pull = 0;  // pull_only: its number
    bool sent = false;
    Time sent_at{};
  };
  struct Held {
    LaneRef lane;
    pb::Outcome outcome;
    Bytes payload;
    bool offered = false;  // to a server that has not confirmed it
    Time offered_at{};
  };
  struct LaneState {
    bool up = false;
    uint64_t server_incarnation = 0;
    uint64_t told_as = 0;           // this worker's incarnation when the lane last came up
    uint64_t unanswered_bytes = 0;  // of pushes
    Time heard_at{};                // newest outcome: a slow link is not a loss
  };
  // Order of sending: by round, then by priority.
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
  // Whether the outcome answers a waiting contribution to its cell and round.
  static bool Answers(const pb::Outcome& outcome, LaneRef lane, const Waiting& waiting);
  // Whether to deliver an outcome for which no contribution waits.
  bool Wants(const Key& key, LaneRef lane) const;
  void HoldClock(const Key& key, LaneRef lane, bool parted);
  void Offer(const Key& key, Held* held, Time now, std::vector<Outgoing>* out);
  void Drop(const Key& key);
  void SendWaiting(const Key& key, Waiting* waiting, Time now, std::vector<Outgoing>* out);
  // The lane's first unanswered push in plan order; nullptr: there is none.
  std::pair<const Key, Waiting>* FirstPush(LaneRef lane);
  void SendWhatCreditAllows(LaneRef lane, Time now, std::vector<Outgoing>* out);

  Options options_;
  uint64_t applied_ = 0;
  uint64_t floor_ = 0;
  uint64_t resent_ = 0;
  uint64_t late_ = 0, newest_late_ = 0;  // number of late rounds, and the newest
  std::map<Key, Waiting> waiting_;
  std::map<Key, Held> held_;
  std::map<LaneRef, LaneState> lanes_;
  // Algorithms without rounds: the version of the weights last received, by cell; and pulls.
  struct Version {
    LaneRef lane;
    uint64_t version = 0;
  };
  std::map<Cell, Version> versions_;
  std::map<Cell, uint64_t> clocks_;  // of the newest answers to pushes
  uint64_t pulls_ = 0;
};

}  // namespace tern::protocol
