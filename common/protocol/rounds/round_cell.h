// One cell (one reduction over the workers) of a RoundLane (the state machine behind one server
// socket, round_lane.h): its slots by round, which contributions each slot accepts, and when each
// slot closes. A slot is the cell's reduction in one round. The floor is the newest round that all
// members have applied. An incarnation is a random number that names a process; a lost worker that
// joins again has a new one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/cell_sum.h"
#include "common/protocol/rounds/lane.h"
#include "common/protocol/rounds/lane_members.h"
#include "common/protocol/rounds/round_slot.h"

namespace tern::protocol {

// Whether the contributors to the cells with CellSpec::check_agreement agree.
struct Agreement {
  Status status;              // ok, or the first error since the lane last went back
  uint64_t newest_round = 0;  // the newest round after which they were found to agree; 0: none
};

inline constexpr uint32_t kMaxAhead = 16;  // RoundLaneOptions::max_ahead of all jobs
// How many rounds, above those that all members have applied, a cell may keep if rounds may close
// without some workers. So no worker is further ahead of another.
constexpr size_t MaxElasticSlots(uint32_t window, uint32_t max_ahead) {
  return std::max<size_t>(2 * size_t{window} + 2, max_ahead) + window;
}

struct RoundLaneOptions {
  uint32_t workers = 1;
  // How many rounds a worker may take part in at the same time: 1, but 2 for OD-SGD.
  uint32_t window = 1;
  uint32_t quorum = 0;  // how many contributions close a slot; 0: those of all members
  // Whether lost members are removed. Then rounds do not wait for members that fetch State (all
  // that a worker needs to continue).
  bool shrink = false;
  // With quorum or shrink: how many rounds a cell may keep; `window` more for the slowest worker.
  uint32_t max_ahead = kMaxAhead;
  uint64_t incarnation = 0;
  // The ports to send in Welcome. Set only for the control lane, which is lane 0 of a server shard.
  std::vector<uint32_t> data_ports;
  // Whether the lane answers hellos. On the control lane of shard 0, the Coordinator answers them.
  bool answers_hellos = true;
  // Returns the learning rate to send with the outcomes of a round. Set only on shard 0, the first
  // server process.
  std::function<double(uint64_t round)> learning_rate;
  // Whether this lane decides the job's last round after a stop request.
  bool decides_last_round = false;
  // Whether a regular checkpoint is due after one of the rounds `first` to `last`. Null: never. Set
  // where decides_last_round is.
  std::function<bool(uint64_t first, uint64_t last)> is_checkpoint_due;
  // Called before the first push with InRound.checkpoint is added to its round. Null: nobody asks.
  std::function<void(uint64_t round)> on_checkpoint_round;
  Safeguards safeguards;
};

// The data that a RoundLane and its cells share. The lane owns the object.
struct RoundLaneState {
  explicit RoundLaneState(RoundLaneOptions given_options);

  // Whether a round may close without some workers.
  bool IsElastic() const { return options.quorum != 0 || options.shrink; }
  // Whether a round without quorum waits for this member.
  bool IsRequired(const LaneMember& member) const {
    return options.shrink ? member.settled() : member.present();
  }
  size_t MaxSlots() const;  // how many slots a cell may have

  const RoundLaneOptions options;
  LaneMembers members;
  bool is_open = false;  // whether every member has said hello on the lane
  uint64_t floor = 0;    // all members have applied the rounds up to this one
  // The newest round of which a member may keep an outcome that a previous server process sent. Set
  // before the lane opens.
  uint64_t newest_held_round = 0;
  bool stop_requested = false;
  uint64_t last_round = 0;  // of the job; 0: not decided
  bool checkpoint_requested = false;
  uint64_t checkpoint_round = 0;  // the newest after which all daemons write one on request
  // By rank: whether the lane has refused contributions for lack of room, or because they belong to
  // a newer membership than the lane knows, or has dropped them with their slot. The lane tells the
  // rank when it may send them again.
  std::vector<bool> refused_for_now;
  Agreement agreement;  // While its status is an error, no outcome is sent.
  Lane::Counters counters;
  std::vector<uint64_t> late_by_rank;  // how many contributions came after their slot had closed
};

class RoundCell {
 public:
  // The lane's state outlives the cell.
  RoundCell(CellSpec spec, RoundLaneState* lane);

  // A member contributes to a round, or skips it (InRound, Skip). Or the leader of a host
  // contributes a sum for several members: it is added if none of them has counted. If all have, it
  // is a repetition. Else the others are asked to repeat their contributions themselves.
  void Contribute(Peer from, const pb::Contribution& c, const Bytes& payload, Sends* out);
  // Counts a member's report that its contribution to a round came too late. REQUIRES c.has_late().
  void CountLate(const pb::Contribution& c);
  // A member asks for the weights. REQUIRES a cell that can be pulled.
  void AnswerPull(Peer from, const pb::Contribution& c, Sends* out) const;
  // A member hands back an outcome of a previous server process. Ignores an outcome of a round of
  // which no member had one when the lane opened. REQUIRES held.has_of_round().
  void RestoreFromOutcome(Peer from, const pb::Outcome& held, const Bytes& payload, Sends* out);
  // Call when the members have changed. If rounds may close without some workers, and with
  // CellSpec::is_for_members_only, drops open slots that have a contribution of a member that was
  // removed or replaced. The lane then tells the other contributors to repeat theirs
  // (RoundLaneState::refused_for_now).
  void DropSlotsOfRemovedMembers();
  // Closes the slots that have enough contributions, the oldest first, until a slot must wait for
  // more contributions or for an older round. Sends the outcomes to all members.
  void CloseReadySlots(Sends* out);
  // Drops the slots of rounds up to the floor.
  void DropUpTo(uint64_t floor);
  void Clear() { slots_.clear(); }
  // Sends the member the outcomes of closed slots that it has not applied, because it may have
  // missed them.
  void ResendMissedOutcomes(const LaneMember& member, Sends* out) const;

  const CellSpec& spec() const { return spec_; }
  const std::map<uint64_t, RoundSlot>& slots() const { return slots_; }  // by round
  // Checks the invariants of a cell that RoundLane::Check lists. `floor_moved`: whether the floor
  // has moved since CloseReadySlots was last called.
  Status Check(bool floor_moved) const;

 private:
  friend class RoundLanePeer;  // for tests
  // Returns the slot of a contribution; opens the slot if needed. If the contribution is stale or
  // too early, refuses the contribution and returns null.
  RoundSlot* FindOrOpenSlot(Peer from, const pb::Contribution& c, Sends* out);
  // Whether the cell can have one slot more, for this round. If necessary, drops the newest slots,
  // if they are open and of later rounds: their contributors repeat their contributions. So workers
  // that run ahead cannot keep the others from contributing.
  bool MakeRoomFor(uint64_t round);
  // Counts a contribution to a closed slot as late or repeated.
  void CountLateOrRepeated(RoundSlot* slot, const pb::Contribution& c);
  // Returns true if the slot is empty, or if its contributions were coded with the same scalers
  // (scale factors). Otherwise, if rounds may close without some workers: if the contribution
  // belongs to a newer membership than the lane knows, refuses it for now; if all contributors to
  // the slot were removed or replaced, empties the slot and returns true. In all other cases, notes
  // in the slot that the worker used other scalers. Returns false if the contribution must not be
  // added.
  bool AcceptsScalersOf(RoundSlot* slot, const pb::Contribution& c);
  // Call when a member has contributed to an open slot. If members used different scalers, decides
  // once all of them have contributed: the scalers that most of them used are right, and the others
  // are refused. If no scalers have most, all members are refused, because nobody knows who is
  // wrong. In both cases the refusal names all ranks and the digests of their scalers.
  void SettleScalers(uint64_t round, RoundSlot* slot, Sends* out);
  // Adds a contribution (not a Skip) to the slot's sum. Returns false if it was not added.
  bool AddToSlot(Peer from, RoundSlot* slot, const pb::Contribution& c, const Bytes& payload,
                 Sends* out);
  bool IsReadyToClose(uint64_t round, const RoundSlot& slot) const;
  void CloseSlot(uint64_t round, RoundSlot* slot, Sends* out);
  // Checks whether the contributors to a slot that has closed agree.
  void CheckAgreement(uint64_t round, const RoundSlot& slot);
  void SendOutcome(const RoundSlot& slot, Peer to, Sends* out) const;
  // Returns an error if the outcome that a worker hands back cannot be one of this cell.
  Status CheckHeldOutcome(const pb::Outcome::OfRound& held, const Bytes& payload) const;
  // CheckRounds checks which rounds have slots, and which slots are closed. CheckMembers checks
  // that the contributors to a slot are members.
  Status CheckRounds(bool floor_moved) const;

  CellSpec spec_;
  RoundLaneState* lane_;
  std::map<uint64_t, RoundSlot> slots_;  // by round
};

}  // namespace tern::protocol
