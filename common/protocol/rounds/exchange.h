// A worker's half of the exchange of gradients: its contributions that are not answered yet
// (SendQueue), and the outcomes (answers) that it keeps for restarted servers (HeldOutcomes). A
// contribution belongs to a cell (one reduction over the workers) of a lane (one server socket).
// The worker's Session owns the Exchange; the Session's thread calls it.
//
// If rounds may close without this worker (`is_elastic`), an outcome is delivered, once, even if
// this worker has not contributed. A contribution that this worker makes later is late: it is only
// counted, and reported to the server. Figures (the workers' metrics) are delivered only to workers
// that contributed figures.
//
// In a job without rounds an answer may be the difference to the weights that this worker has.
// Therefore a repeated answer must not count as the answer to the next pull, and a version number
// of one server process is never sent to another server process. An incarnation is a random number
// that names a process; a lost worker that joins again has a new one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
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
    uint64_t credit_bytes = 16 << 20;  // the credit of a lane (send_queue.h)
    // If a contribution had no answer for this long, and no outcome arrived on its lane: on a
    // control lane it is sent again, on a data lane the worker asks what came (TakeSilentLanes).
    Time resend_after{};
    // Whether rounds may close without this worker's contribution.
    bool is_elastic = false;
    // With `is_elastic`: returns whether the exchange plan (which cells the job has, and on which
    // lanes) has this cell at this lane. Unset: not checked.
    std::function<bool(const Cell&, LaneRef)> in_plan = nullptr;
    uint64_t epoch = 0;  // the number of the newest membership that a server has told this worker
  };
  struct Outgoing {
    LaneRef lane;
    Message message;
    bool to_leader = false;  // goes to the leader of this worker's host, not to the lane
  };
  // An outcome for the caller. Each outcome is delivered once.
  struct Delivery {
    Cell cell;
    pb::Outcome outcome;
    Bytes payload;
  };

  explicit Exchange(Options options)
      : options_(std::move(options)), queue_(options_.credit_bytes) {}

  // Queues a contribution, and appends to *out what may be sent now. REQUIRES that this worker has
  // not contributed to this cell in this round (or at this clock) before. A pull replaces an
  // unanswered pull of the cell.
  void Contribute(const Cell& cell, LaneRef lane, Contribution contribution, Time now,
                  std::vector<Outgoing>* out);
  // Returns the outcome as a delivery if the outcome answers a contribution, or if this worker
  // needs the outcome although it has not contributed (WantsUnsolicited). Else returns nothing.
  std::vector<Delivery> OnOutcome(LaneRef lane, Kind kind, const pb::Outcome& outcome,
                                  const Bytes& payload, Time now, std::vector<Outgoing>* out);
  // The server confirms an outcome that this worker handed back.
  void OnHeldConfirmed(LaneRef lane, Kind kind, const pb::Outcome& outcome);
  // The server has answered the lane's hello. Sends the unanswered contributions again. If the
  // server process is new, also sends the kept outcomes. If only this worker's incarnation is new,
  // also sends the kept clocks (held_outcomes.h).
  void OnLaneUp(LaneRef lane, uint64_t server_incarnation, Time now, std::vector<Outgoing>* out);
  void OnLaneDown(LaneRef lane);
  // The server has room again for contributions that it refused as early: sends the unanswered ones
  // again.
  void OnRoomAgain(LaneRef lane, Time now, std::vector<Outgoing>* out);
  // All members have applied the rounds up to `floor`; the outcomes of these rounds need not be
  // kept any more.
  void OnFloor(uint64_t floor) { held_.OnFloor(floor); }
  // With exchange.host_sum: what this worker knows of the leader of its host. At first it knows
  // none. While there is one, pushes go to it.
  enum class Leader {
    kNone,     // There is none: what the leader had of this worker goes to the lanes.
    kPresent,  // There is one, which may be this worker.
    kRefuses,  // There is one, but it cannot bring to the lanes what it has of this worker.
  };
  void OnLeader(Leader leader, Time now, std::vector<Outgoing>* out);
  void OnTimer(Time now, std::vector<Outgoing>* out);
  // Returns the data lanes that are up and on which, for `resend_after`, contributions waited and
  // no outcome came, nor was the lane returned here. The caller probes them (links.h).
  std::vector<LaneRef> TakeSilentLanes(Time now);
  // The lane answers a probe that was sent at `asked_at`: it has `counted` these contributions.
  // Others that were sent before are lost, because a connection keeps the order of messages; sends
  // them again.
  void OnProbeAnswered(LaneRef lane, Time asked_at, const std::set<ExchangeKey>& counted, Time now,
                       std::vector<Outgoing>* out);
  // This worker has applied all rounds up to `applied`. With `is_elastic`, drops the unanswered
  // contributions to those rounds. Without `is_elastic`, REQUIRES that every answer of those rounds
  // was delivered, because a worker that gets this worker's state does not contribute to those
  // rounds again.
  void SetApplied(uint64_t applied);
  // The worker installs the state (weights, optimizer) that another process sent, as it is after
  // round `applied`. Drops all contributions and kept outcomes.
  void Restart(uint64_t applied);
  void SetIncarnation(uint64_t incarnation) { options_.incarnation = incarnation; }
  // A server has told this worker of the membership with this number.
  void RaiseEpoch(uint64_t epoch) { options_.epoch = std::max(options_.epoch, epoch); }

  bool IsUp(LaneRef lane) const;
  uint64_t applied() const { return applied_; }
  const SendQueue& queue() const { return queue_; }
  const HeldOutcomes& held() const { return held_; }
  struct Counts {
    uint64_t resent = 0;       // messages sent again, other than on a connection that came up
    uint64_t late_rounds = 0;  // rounds that closed before this worker's push arrived
    uint64_t left_host = 0;    // pushes sent to the leader of the host first, and then to the lanes
    uint64_t lost_by_leader = 0;  // of these: because a probe showed that the leader was no help
  };
  Counts counts() const {
    return {num_resent_, late_rounds_.num_rounds, num_left_host_, num_lost_by_leader_};
  }

  // These invariants hold after every event: SendQueue::Check(), HeldOutcomes::Check(), and the
  // number of late rounds is at most the number of the newest late round.
  Status Check() const;

 private:
  friend class ExchangePeer;  // for tests
  using Key = ExchangeKey;
  struct LaneState {
    bool is_up = false;
    uint64_t server_incarnation = 0;
    // The incarnation with which this worker last said hello on the lane.
    uint64_t greeted_incarnation = 0;
    // When the newest outcome came. While outcomes come, the link is slow but not lost.
    Time last_outcome_at{};
    Time asked_at{};  // when TakeSilentLanes last returned the lane
  };

  // Rounds that closed before this worker's push arrived.
  struct LateRounds {
    uint64_t num_rounds = 0;    // how many there were
    uint64_t newest_round = 0;  // the newest of them
    void CountRound(const Key& key);
  };

  void Send(const std::vector<const SendQueue::Item*>& items, std::vector<Outgoing>* out);
  static void Send(const std::vector<const HeldOutcomes::Item*>& items, std::vector<Outgoing>* out);
  void SendWhatCreditAllows(LaneRef lane, Time now, std::vector<Outgoing>* out);
  void CountAndReportLate(const Key& key, LaneRef lane, std::vector<Outgoing>* out);
  // Whether to deliver an outcome that answers no contribution.
  bool WantsUnsolicited(const Key& key, LaneRef lane) const;

  Options options_;
  uint64_t applied_ = 0;
  uint64_t num_resent_ = 0;
  bool has_leader_ = false;
  uint64_t num_left_host_ = 0, num_lost_by_leader_ = 0;
  LateRounds late_rounds_;
  SendQueue queue_;
  HeldOutcomes held_;
  std::map<LaneRef, LaneState> lanes_;
  // A version of weights, and the lane that sent them.
  struct Version {
    LaneRef lane;
    uint64_t version = 0;
  };
  // In a job without rounds: by cell, the version of the weights last received.
  std::map<Cell, Version> versions_;
  uint64_t newest_pull_number_ = 0;  // the number of the newest pull; pulls are numbered from 1
};

}  // namespace tern::protocol
