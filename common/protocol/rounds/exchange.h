// A worker's half of the rounds: its contributions that are not answered yet (SendQueue), and the
// answers that it retains for others (HeldOutcomes). One owner, no thread of its own.
//
// If rounds may close without this worker (`unsolicited`), an outcome is delivered, once, even if
// this worker has not contributed. A later contribution of this worker is late: it is counted, and
// the server is told, but it is not added. Figures are delivered only to workers that contributed
// some.
//
// Without rounds an answer may be a difference to the weights that this worker holds. Therefore a
// repeated answer does not answer the next pull, and versions from one incarnation of a server are
// not used with another.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/forms.h"
#include "common/protocol/rounds/held_outcomes.h"
#include "common/protocol/rounds/message.h"
#include "common/protocol/rounds/send_queue.h"

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
    uint64_t epoch = 0;  // of the newest membership that shard 0 has told of
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

  explicit Exchange(Options options)
      : options_(std::move(options)), queue_(options_.credit_bytes) {}

  // REQUIRES no earlier contribution to this cell and exchange, except for pulls, where a new one
  // replaces the last.
  void Contribute(const Cell& cell, LaneRef lane, Contribution contribution, Time now,
                  std::vector<Outgoing>* out);
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
  void OnFloor(uint64_t floor) { held_.OnFloor(floor); }
  void OnTimer(Time now, std::vector<Outgoing>* out);
  // REQUIRES that every answer of the rounds up to `applied` was delivered: whoever gets this
  // worker's state does not contribute to them again. (With `unsolicited`: every answer needed to
  // apply them; contributions still unanswered then are dropped.)
  void SetApplied(uint64_t applied);
  // A new State was installed: everything of earlier rounds is void.
  void Restart(uint64_t applied);
  void SetIncarnation(uint64_t incarnation) { options_.incarnation = incarnation; }
  void SetEpoch(uint64_t epoch) { options_.epoch = epoch; }

  bool IsUp(LaneRef lane) const;
  uint64_t applied() const { return applied_; }
  uint64_t floor() const { return held_.floor(); }
  bool idle() const { return queue_.empty(); }
  size_t held() const { return held_.size(); }
  // The newest round of which an outcome of this lane is retained; 0: none.
  uint64_t newest_held(LaneRef lane) const { return held_.newest(lane); }
  uint64_t resent() const { return resent_; }
  // Rounds that closed before this worker's push arrived.
  uint64_t late() const { return late_.rounds; }

  // Holds after every event: what SendQueue and HeldOutcomes hold; no more rounds were late than
  // have come.
  Status Check() const;

 private:
  friend class ExchangePeer;  // of the tests
  using Key = ExchangeKey;
  struct LaneState {
    bool up = false;
    uint64_t server_incarnation = 0;
    uint64_t told_as = 0;  // this worker's incarnation when the lane last came up
    Time heard_at{};       // newest outcome: a slow link is not a loss
  };

  // Rounds that this worker came late to.
  struct Late {
    uint64_t rounds = 0, newest = 0;
    void Count(const Key& key);
  };

  void Send(const std::vector<const SendQueue::Item*>& items, std::vector<Outgoing>* out) const;
  static void Send(const std::vector<const HeldOutcomes::Item*>& items, std::vector<Outgoing>* out);
  void SendWhatCreditAllows(LaneRef lane, Time now, std::vector<Outgoing>* out);
  void OnLate(const Key& key, LaneRef lane, std::vector<Outgoing>* out);
  // Whether to deliver an outcome for which no contribution waits.
  bool Wants(const Key& key, LaneRef lane) const;

  Options options_;
  uint64_t applied_ = 0;
  uint64_t resent_ = 0;
  Late late_;
  SendQueue queue_;
  HeldOutcomes held_;
  std::map<LaneRef, LaneState> lanes_;
  // Algorithms without rounds: the version of the weights last received, by cell; and pulls.
  struct Version {
    LaneRef lane;
    uint64_t version = 0;
  };
  std::map<Cell, Version> versions_;
  uint64_t pulls_ = 0;
};

}  // namespace tern::protocol
