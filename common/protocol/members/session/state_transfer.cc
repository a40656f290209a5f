#include "common/protocol/members/session/state_transfer.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern::protocol {

bool StateGiver::OnWant(const pb::StateWant& want, std::optional<Message>* piece) {
  Snapshot& snapshot = snapshots_[want.rank()];
  const bool is_new = snapshot.incarnation != want.incarnation();
  if (is_new) {
    snapshot = Snapshot{};
    snapshot.incarnation = want.incarnation();
    snapshot.transfer = Digest(Cat(incarnation_, " gives ", ++num_transfers_));
  }
  snapshot.asked_piece = want.piece();
  if (snapshot.is_taken) *piece = Piece(want.rank(), snapshot);
  return is_new;
}

std::vector<Message> StateGiver::OnSnapshot(const Bytes& state, uint64_t applied,
                                            uint64_t stop_after, uint64_t checkpoint_after) {
  std::vector<Message> pieces;
  for (auto& [rank, snapshot] : snapshots_) {
    if (snapshot.is_taken) continue;
    snapshot.is_taken = true;
    snapshot.state = state;
    snapshot.applied = applied;
    snapshot.stop_after = stop_after;
    snapshot.checkpoint_after = checkpoint_after > applied ? checkpoint_after : 0;
    if (auto piece = Piece(rank, snapshot)) pieces.push_back(std::move(*piece));
  }
  return pieces;
}

void StateGiver::OnFloor(uint64_t floor) {
  std::erase_if(snapshots_, [floor](const auto& item) {
    return item.second.is_taken && item.second.applied < floor;
  });
}

std::optional<Message> StateGiver::Piece(uint32_t rank, const Snapshot& snapshot) const {
  const uint64_t state_bytes = snapshot.state.size();
  const uint64_t num_pieces =
      std::max<uint64_t>(1, (state_bytes + piece_bytes_ - 1) / piece_bytes_);
  if (snapshot.asked_piece >= num_pieces) return std::nullopt;
  Message message;
  pb::StatePiece* piece = message.head.mutable_state_piece();
  piece->set_rank(rank);
  piece->set_incarnation(snapshot.incarnation);
  piece->set_piece(snapshot.asked_piece);
  piece->set_pieces(static_cast<uint32_t>(num_pieces));
  piece->set_applied(snapshot.applied);
  piece->set_transfer(snapshot.transfer);
  if (snapshot.stop_after != 0) piece->set_stop_after(snapshot.stop_after);
  if (snapshot.checkpoint_after != 0) piece->set_checkpoint_after(snapshot.checkpoint_after);
  const uint64_t begin = uint64_t{snapshot.asked_piece} * piece_bytes_;
  message.payload =
      snapshot.state.Slice(begin, std::min<uint64_t>(piece_bytes_, state_bytes - begin));
  return message;
}

Message StateTaker::Want(uint32_t rank, uint64_t incarnation) const {
  Message message;
  pb::StateWant* want = message.head.mutable_state_want();
  want->set_rank(rank);
  want->set_incarnation(incarnation);
  want->set_piece(next_piece_);
  return message;
}

StateTaker::Progress StateTaker::OnPiece(const pb::StatePiece& piece, const Bytes& payload) {
  // A piece of another snapshot. The transfer of every snapshot starts at piece 0.
  if (piece.transfer() != transfer_) {
    *this = StateTaker(max_bytes_);
    transfer_ = piece.transfer();
    num_pieces_ = piece.pieces();
    applied_ = piece.applied();
    stop_after_ = piece.stop_after();
    checkpoint_after_ = piece.checkpoint_after();
    if (piece.piece() != 0) return Progress::kNext;
  }
  if (piece.piece() != next_piece_ || next_piece_ >= num_pieces_)
    return Progress::kIgnored;  // The piece is repeated.
  if (payload.size() > max_bytes_ - state_.size()) return Progress::kTooLarge;
  state_.append(payload.view());
  return ++next_piece_ < num_pieces_ ? Progress::kNext : Progress::kComplete;
}

}  // namespace tern::protocol
