// Transfers State (the parameters and everything else that a worker needs to continue) from one
// worker to another by way of shard 0. The receiving worker, the taker, requests piece after piece.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/protocol/rounds/message.h"

namespace tern::protocol {

// The sending side. It keeps one snapshot of the state per taker. The floor is the newest round
// that all members have applied. The taker is a member, so the floor passes the round of its
// snapshot only after the taker has applied a later round. Until then the snapshot is usable.
class StateGiver {
 public:
  StateGiver(uint64_t incarnation, uint32_t piece_bytes)
      : incarnation_(incarnation), piece_bytes_(piece_bytes) {}

  // Handles a taker's request for a piece. Returns true if this worker must take a snapshot of its
  // state; several takers may wait for one snapshot. Sets *piece to the requested piece if the
  // snapshot exists and has that piece.
  bool OnWant(const pb::StateWant& want, std::optional<Message>* piece);
  // Receives the snapshot that OnWant requested. Returns the pieces for which takers wait.
  // `stop_after`: the job's last round, or 0 if it is not known. `checkpoint_after`: the newest
  // round after which all daemons write a checkpoint on request; 0: none.
  std::vector<Message> OnSnapshot(const Bytes& state, uint64_t applied, uint64_t stop_after,
                                  uint64_t checkpoint_after);
  // Drops the snapshots whose round is below `floor`: their takers have installed them.
  void OnFloor(uint64_t floor);

  size_t num_snapshots() const { return snapshots_.size(); }

 private:
  struct Snapshot {
    uint64_t incarnation = 0;       // of the taker
    uint64_t transfer = 0;          // the number of this transfer, in each of its pieces
    uint32_t asked_piece = 0;       // the piece requested last
    bool is_taken = false;          // whether the snapshot has been taken
    uint64_t applied = 0;           // the round after which it was taken
    uint64_t stop_after = 0;        // the job's last round; 0: not known
    uint64_t checkpoint_after = 0;  // if it is newer than `applied`
    Bytes state;
  };
  std::optional<Message> Piece(uint32_t rank, const Snapshot& snapshot) const;

  uint64_t incarnation_;  // this worker's random number, from which transfers get theirs
  uint32_t piece_bytes_;
  uint64_t num_transfers_ = 0;
  std::map<uint32_t, Snapshot> snapshots_;  // by rank of the taker
};

// The receiving side. It ignores an unexpected piece. A piece of another snapshot starts the
// transfer again.
class StateTaker {
 public:
  enum class Progress { kIgnored, kNext, kComplete, kTooLarge };

  explicit StateTaker(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  Message Want(uint32_t rank, uint64_t incarnation) const;  // a request for the next piece
  Progress OnPiece(const pb::StatePiece& piece, const Bytes& payload);
  uint64_t applied() const { return applied_; }
  uint64_t stop_after() const { return stop_after_; }
  uint64_t checkpoint_after() const { return checkpoint_after_; }
  // Returns the state. REQUIRES that OnPiece has returned kComplete.
  Bytes TakeState() { return Bytes::Own(std::move(state_)); }

 private:
  uint64_t max_bytes_;
  uint64_t transfer_ = 0;
  uint32_t next_piece_ = 0, num_pieces_ = 0;
  uint64_t applied_ = 0, stop_after_ = 0, checkpoint_after_ = 0;
  std::string state_;
};

}  // namespace tern::protocol
