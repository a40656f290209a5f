// A worker's half of the rounds: what it contributed and has no answer to, and the answers that it
// still holds for others. One owner, no thread of its own.
//
// A contribution:  waiting --(credit, lane up)--> sent --(outcome)--> done
//                     ^                            | repeated after `resend_after`, and when its
//                     +----------------------------+ lane comes up again
// An outcome:      held until the floor reaches its round; given to a server that comes back
//                  without it, again and again until that server says that it has it.
//
// Credit: bytes of pushes sent on a lane and not answered are at most `credit_bytes`, except that a
// push which comes before all of those in plan order may always go. So the first cell that is not
// closed gets its pushes from everybody, although scalers do not come back to all workers in the
// same order; a server holds at most about workers * credit a lane.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
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

  explicit Exchange(Options options) : options_(options) {}

  // REQUIRES not contributed before. `digest` is of the scalers used (push).
  void Contribute(const Cell& cell, uint64_t round, LaneRef lane, uint64_t digest, Bytes payload,
                  Time now, std::vector<Outgoing>* out);
  // Returns the answer if this worker waits for it.
  std::vector<Delivery> OnOutcome(LaneRef lane, Kind kind, const pb::Outcome& outcome,
                                  const Bytes& payload, Time now, std::vector<Outgoing>* out);
  // The server has what it was given.
  void OnHeldTaken(LaneRef lane, Kind kind, const pb::Outcome& outcome);
  // Hello was answered. A server that was not known before on this lane gets what is held.
  void OnLaneUp(LaneRef lane, uint64_t server_incarnation, Time now, std::vector<Outgoing>* out);
  void OnLaneDown(LaneRef lane);
  void OnFloor(uint64_t floor);
  void OnTimer(Time now, std::vector<Outgoing>* out);
  // REQUIRES every answer of the rounds up to `applied` delivered: whoever gets this worker's state
  // contributes to none of them again.
  void SetApplied(uint64_t applied) { applied_ = applied; }
  // After State: what older rounds left is void.
  void Restart(uint64_t applied);
  void SetIncarnation(uint64_t incarnation) { options_.incarnation = incarnation; }

  uint64_t applied() const { return applied_; }
  uint64_t floor() const { return floor_; }
  bool idle() const { return waiting_.empty(); }
  size_t held() const { return held_.size(); }
  uint64_t resent() const { return resent_; }

 private:
  struct Waiting {
    LaneRef lane;
    uint64_t digest = 0;
    Bytes payload;
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
    uint64_t unanswered_bytes = 0;  // of pushes
  };
  // Order of contributing: rounds, then within a round as they came (plan order).
  struct Key {
    uint64_t round = 0;
    Cell cell;
    auto operator<=>(const Key&) const = default;
  };

  void Offer(const Key& key, Held* held, Time now, std::vector<Outgoing>* out);
  void SendWaiting(const Key& key, Waiting* waiting, Time now, std::vector<Outgoing>* out);
  void SendWhatCreditAllows(LaneRef lane, Time now, std::vector<Outgoing>* out);

  Options options_;
  uint64_t applied_ = 0;
  uint64_t floor_ = 0;
  uint64_t resent_ = 0;
  std::map<Key, Waiting> waiting_;
  std::map<Key, Held> held_;
  std::map<LaneRef, LaneState> lanes_;
};

}  // namespace tern::protocol
