// A slot of a RoundLane: one cell in one round. Its states:
//
//   kNew ---Open---> kOpen ---Close---> kClosed
//     |              |  ^ |
//     |              |  +-+ Open: starts again, empty
//     +---Restore----+----------------> kRestored
//
//   kOpen      each contribution counts once. A Skip counts as arrived, but adds nothing
//   kClosed    the outcome is kept, and sent again to a worker that repeats itself or is late
//   kRestored  like kClosed; a worker handed back the outcome of a previous server process
//
// The cell drops a slot when the floor reaches its round: then all members have applied it. It also
// drops an open slot that must start again empty.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/protocol/rounds/cell_sum.h"

namespace tern::protocol {

class RoundSlot {
 public:
  enum class State : uint8_t { kNew, kOpen, kClosed, kRestored };

  explicit RoundSlot(size_t workers) : arrived_(workers), added_(workers) {}

  // Starts with an empty sum; forgets earlier contributions to it. REQUIRES not closed.
  void Open(std::unique_ptr<CellSum> sum);
  // Adds a contribution to the sum. `digest`: of the scalers with which it was coded. Error: the
  // payload is invalid, and the slot must be dropped. REQUIRES an open slot, a rank that is not in
  // the sum, and the same digest as that of the contributions in the sum.
  Status Add(uint32_t rank, uint64_t incarnation, uint64_t digest, const Bytes& payload);
  // Notes that the rank has arrived without adding to the sum: it skips (open slot) or is late
  // (closed slot). REQUIRES that it has not arrived before.
  void MarkArrived(uint32_t rank, uint64_t incarnation);
  // Closes the sum, whose answer becomes the payload. If no rank is in the sum, the payload is
  // empty, unless `always`. REQUIRES an open slot.
  void Close(bool always);
  // Adopts the outcome of a previous server process. REQUIRES a slot that is not closed, and an
  // outcome that names as many ranks as it counts.
  void Restore(const pb::Outcome& held, Bytes payload);
  void DropPayload() { payload_ = Bytes(); }  // for tests that show that the payload must be kept

  State state() const { return state_; }
  bool closed() const { return state_ == State::kClosed || state_ == State::kRestored; }
  // The incarnation with which the rank arrived; 1 if only a restored outcome says that it did; 0
  // if it has not arrived.
  uint64_t arrived_incarnation(uint32_t rank) const { return arrived_[rank]; }
  bool added(uint32_t rank) const { return added_[rank]; }
  uint32_t contributors() const { return contributors_; }
  uint64_t digest() const { return digest_; }
  // The outcome of a closed slot. The RoundCell sets the fields that only it knows
  pb::Outcome& outcome() { return outcome_; }
  const pb::Outcome& outcome() const { return outcome_; }
  const Bytes& payload() const { return payload_; }
  // Holds after every event; see RoundLane::Check. `cell` and `round` are for the message.
  Status Check(const Cell& cell, uint64_t round) const;

 private:
  friend class RoundLanePeer;  // of the tests
  // Every change of the state goes through here. Returns false, without a change, if the diagram
  // has no such arrow.
  bool Become(State next);

  State state_ = State::kNew;
  std::unique_ptr<CellSum> sum_;   // while open
  std::vector<uint64_t> arrived_;  // by rank: see arrived_incarnation()
  std::vector<bool> added_;        // by rank: whether it is in the sum
  uint32_t contributors_ = 0;      // how many are in the sum
  uint64_t digest_ = 0;  // of the scalers with which the contributions in the sum were coded
  pb::Outcome outcome_;
  Bytes payload_;
};

}  // namespace tern::protocol
