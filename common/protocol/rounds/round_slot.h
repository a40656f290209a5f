// A slot: one cell in one round.
//
//   kNew ---Open---> kOpen ---Close---> kClosed        dropped when the floor is at its round,
//     |              |  ^ |                            an open one also to start again empty
//     |              |  +-+ Open: starts again, empty
//     +---Restore----+----------------> kRestored
//
//   kOpen      each contribution counts once. One that takes no part (skip) has come, and adds
//              nothing
//   kClosed    the outcome is kept, and sent again to workers that repeat a contribution or come
//              late
//   kRestored  the same, of an earlier life of the server: a worker handed the outcome back
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

  explicit RoundSlot(size_t workers) : come_(workers), added_(workers) {}

  // REQUIRES not closed.
  void Open(std::unique_ptr<CellSum> sum);
  // Counts a contribution, coded with the scalers of `digest`. After an error (the payload is not
  // one) the slot must be dropped. REQUIRES open, the rank not in the sum, and the digest of those
  // who are.
  Status Add(uint32_t rank, uint64_t incarnation, uint64_t digest, const Bytes& payload);
  // The rank takes no part (open), or comes late (closed). REQUIRES that it has not come.
  void Come(uint32_t rank, uint64_t incarnation);
  // The payload becomes that of the sum; it is empty if nobody is in it, unless `always`. REQUIRES
  // open.
  void Close(bool always);
  // Takes over the outcome of an earlier life. REQUIRES that it names as many ranks as it counts,
  // and not closed.
  void Restore(const pb::Outcome& held, Bytes payload);
  void DropPayload() { payload_ = Bytes(); }  // to show that it is needed

  State state() const { return state_; }
  bool closed() const { return state_ == State::kClosed || state_ == State::kRestored; }
  // The incarnation of the rank that has come (1 if only a restored outcome tells so), or 0.
  uint64_t come(uint32_t rank) const { return come_[rank]; }
  bool added(uint32_t rank) const { return added_[rank]; }
  uint32_t contributors() const { return contributors_; }
  uint64_t digest() const { return digest_; }
  pb::Outcome& outcome() { return outcome_; }  // closed; the lane adds what it decides
  const pb::Outcome& outcome() const { return outcome_; }
  const Bytes& payload() const { return payload_; }
  Status Check(const Cell& cell, uint64_t round) const;

 private:
  friend class RoundLanePeer;  // of the tests
  // The only way from state to state. False, and nothing changes, where the drawing has no arrow.
  bool Become(State next);

  State state_ = State::kNew;
  std::unique_ptr<CellSum> sum_;  // while open
  std::vector<uint64_t> come_;    // by rank
  std::vector<bool> added_;       // by rank: whether it is in the sum
  uint32_t contributors_ = 0;     // how many are in the sum
  uint64_t digest_ = 0;           // of the scalers that all of them used
  pb::Outcome outcome_;
  Bytes payload_;
};

}  // namespace tern::protocol
