// One cell of a lane in rounds: its slots by round, which contribution each takes, and when each
// closes (see round_lane.h).
#pragma once

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

struct RoundLaneOptions {
  uint32_t workers = 1;
  uint32_t window = 1;      // rounds that a worker may have open: 1; 2 for OD-SGD
  uint32_t quorum = 0;      // contributions that close a slot; 0: all are needed
  bool shrink = false;      // members may be removed, and are not waited for while they fetch State
  uint32_t max_ahead = 16;  // with quorum or shrink: rounds beyond the floor that a cell keeps
  uint64_t incarnation = 0;
  std::vector<uint32_t> data_ports;  // sent in Welcome; control only
  bool welcomes = true;  // data lanes answer hellos themselves; for control the coordinator does
  std::function<double(uint64_t round)> learning_rate;  // shard 0 only
  bool leads = false;  // has the cell whose closing fixes the last round after a stop request
  Safeguards safeguards;
};

// What a lane and its cells share. The lane owns it.
struct RoundLaneState {
  explicit RoundLaneState(RoundLaneOptions with);

  bool IsElastic() const { return options.quorum != 0 || options.shrink; }
  bool IsRequired(const LaneMember& member) const {
    return options.shrink ? member.settled() : member.present();
  }
  size_t MaxSlots() const;  // of a cell

  const RoundLaneOptions options;
  LaneMembers members;
  bool open = false;
  uint64_t floor = 0;
  // While the lane is blank: the newest round of which a member may hold an outcome.
  uint64_t held_until = 0;
  bool stop_requested = false;
  uint64_t stop_after = 0;  // 0: not decided
  // By rank: contributions were refused for lack of room, or before this lane had heard of the
  // sender's membership.
  std::vector<bool> turned_away;
  Lane::Counters counters;
  std::vector<uint64_t> late_by_rank;
};

class RoundCell {
 public:
  // `leads`: its closing fixes the last round. The state outlives the cell.
  RoundCell(CellSpec spec, bool leads, RoundLaneState* lane);

  // A member contributes to a round of its window, or skips it.
  void Contribute(Peer from, const pb::Contribution& c, const Bytes& payload, Sends* out);
  // A member says that it comes late, or repeats itself, to a round that may have closed.
  void CountLate(const pb::Contribution& c);
  // A member asks for the weights. REQUIRES can_be_pulled().
  void Pull(Peer from, const pb::Contribution& c, Sends* out) const;
  // A member hands back an outcome of an earlier life of the server. REQUIRES one of a round.
  void TakeBack(Peer from, const pb::Outcome& held, const Bytes& payload, Sends* out);
  // Members have changed. The others repeat what is not answered.
  void DropThoseGone();
  void CloseWhatHasEnough(Sends* out);
  void DropUpTo(uint64_t floor);
  void Clear() { slots_.clear(); }
  // Sends the closed outcomes that the member has not applied: it may have missed them.
  void SendWhatItMissed(const LaneMember& member, Sends* out) const;

  bool can_be_pulled() const { return spec_.pull != nullptr; }
  size_t slots() const { return slots_.size(); }
  // The oldest slot that is open, or null.
  const RoundSlot* OldestOpen(uint64_t* round) const;
  // `floor_moved`: since slots were last looked through for what has enough.
  Status Check(bool floor_moved) const;

 private:
  friend class RoundLanePeer;  // of the tests
  // The slot of a contribution, opened if needed; null if the contribution is stale or early.
  RoundSlot* SlotFor(Peer from, const pb::Contribution& c, Sends* out);
  bool HasRoomFor(uint64_t round) const;
  void CountClosed(RoundSlot* slot, const pb::Contribution& c);
  // Whether the slot can take what was coded with these scalers; empties it first if need be.
  // Else the contribution is refused, or turned away until the lane has heard of its members.
  bool TakesScalersOf(Peer from, RoundSlot* slot, const pb::Contribution& c, Sends* out);
  // Adds a contribution that takes part; false if it was not taken.
  bool AddTo(Peer from, RoundSlot* slot, const pb::Contribution& c, const Bytes& payload,
             Sends* out);
  bool HasEnough(uint64_t round, const RoundSlot& slot) const;
  void Close(uint64_t round, RoundSlot* slot, Sends* out);
  void SendOutcome(const RoundSlot& slot, Peer to, Sends* out) const;
  Status CheckHeld(const pb::Outcome::OfRound& held, const Bytes& payload) const;
  Status CheckRounds(bool floor_moved) const;
  Status CheckMembers(uint64_t round, const RoundSlot& slot) const;

  CellSpec spec_;
  bool leads_;
  RoundLaneState* lane_;
  std::map<uint64_t, RoundSlot> slots_;  // by round
};

}  // namespace tern::protocol
