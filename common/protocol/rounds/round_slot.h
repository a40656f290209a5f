// A slot: one reduction over the workers (a cell) in one round, at a RoundLane, the state machine
// behind one server socket. The states of a slot:
//
//   kNew ---Open---> kOpen ---Close---> kClosed
//     |              |  ^ |
//     |              |  +-+ Open: starts again, empty
//     +---Restore----+----------------> kRestored
//
//   kOpen      each contribution counts once. A worker that skips the round counts as arrived, but
//              adds nothing
//   kClosed    the outcome (answer) is kept, and sent again to a worker that repeats its
//              contribution or is late
//   kRestored  like kClosed, but a worker handed back the outcome that a previous server process
//              sent
//
// The cell drops a slot when all members have applied its round. It also drops an open slot that
// must start again empty. An incarnation is a random number that names a process; a lost worker
// that joins again has a new one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/protocol/rounds/cell_sum.h"
#include "common/protocol/rounds/forms.h"

namespace tern::protocol {

class RoundSlot {
 public:
  enum class State : uint8_t { kNew, kOpen, kClosed, kRestored };

  explicit RoundSlot(size_t num_workers)
      : arrived_incarnations_(num_workers), is_added_(num_workers), senders_(num_workers) {}

  // Starts with the empty sum `sum`, and forgets earlier contributions. REQUIRES a slot that is not
  // closed.
  void Open(std::unique_ptr<CellSum> sum);
  // Adds a contribution, or the sum of several, to the sum. `sender`: who sent it, and gets the
  // answer for all of them. `digest`: the digest of the scalers (scale factors) with which the
  // contribution was coded. Returns an error if the payload is invalid; the slot must then be
  // dropped.
  // REQUIRES an open slot, at least one contributor, none of which is in the sum, and the same
  // digest as that of the contributions in the sum.
  Status Add(const std::vector<Contributor>& contributors, Contributor sender, uint64_t digest,
             const Bytes& payload);
  // Notes that the rank's contribution is not in the sum, because it was coded with other scalers,
  // of this digest. REQUIRES an open slot.
  void NoteOtherScalers(uint32_t rank, uint64_t incarnation, uint64_t digest);
  // Notes that the rank has arrived without adding to the sum: it skips (open slot) or is late
  // (closed slot). REQUIRES that it has not arrived before.
  void MarkArrived(uint32_t rank, uint64_t incarnation);
  // Closes the sum, whose answer becomes the payload. But if no rank is in the sum and
  // `even_if_empty` is false, the payload is empty. REQUIRES an open slot.
  void Close(bool even_if_empty);
  // Adopts the outcome of a previous server process. REQUIRES a slot that is not closed, and an
  // outcome that names as many ranks as it counts.
  void Restore(const pb::Outcome& held, Bytes payload);
  // Only tests need this, to show that a closed slot must keep its payload.
  void DropPayload() { payload_ = Bytes(); }

  // The rank for which the slot was last found to wait: where the next search for one begins.
  mutable uint32_t awaited_rank = 0;

  State state() const { return state_; }
  bool closed() const { return state_ == State::kClosed || state_ == State::kRestored; }
  // The incarnation with which the rank arrived; 1 if only a restored outcome says that the rank
  // arrived; 0 if it has not arrived.
  uint64_t arrived_incarnation(uint32_t rank) const { return arrived_incarnations_[rank]; }
  bool added(uint32_t rank) const { return is_added_[rank]; }
  // Who sent the contribution of this rank, which is in the sum of this process: the rank itself,
  // or its host's leader. Incarnation 0: the rank is not in it.
  Contributor sender_of(uint32_t rank) const { return senders_[rank]; }
  uint32_t contributors() const { return num_contributors_; }
  uint64_t digest() const { return digest_; }
  struct OtherScalers {
    uint64_t incarnation = 0;
    uint64_t digest = 0;
  };
  // The newest NoteOtherScalers of each rank since the slot was opened, by rank.
  const std::map<uint32_t, OtherScalers>& other_scalers() const { return other_scalers_; }
  // The outcome of a closed slot. Close sets only the contributors in it; the slot's owner sets the
  // rest.
  pb::Outcome& outcome() { return outcome_; }
  const pb::Outcome& outcome() const { return outcome_; }
  const Bytes& payload() const { return payload_; }
  // Checks the invariants of a slot that RoundLane::Check lists. `cell` and `round`: those of the
  // slot, which its outcome must have, too.
  Status Check(const Cell& cell, uint64_t round) const;

 private:
  friend class RoundLanePeer;  // for tests
  // Changes the state; no other function does. Returns false and changes nothing if the diagram has
  // no arrow from the present state to `next`.
  bool Become(State next);

  State state_ = State::kNew;
  std::unique_ptr<CellSum> sum_;                // null unless the slot is open
  std::vector<uint64_t> arrived_incarnations_;  // by rank: see arrived_incarnation()
  std::vector<bool> is_added_;                  // by rank: whether its contribution is in the sum
  std::vector<Contributor> senders_;            // by rank: see sender_of()
  uint32_t num_contributors_ = 0;               // how many ranks are in the sum
  uint64_t digest_ = 0;  // of the scalers with which the contributions in the sum were coded
  std::map<uint32_t, OtherScalers> other_scalers_;
  pb::Outcome outcome_;
  Bytes payload_;
};

}  // namespace tern::protocol
