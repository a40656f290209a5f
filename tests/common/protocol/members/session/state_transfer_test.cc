// Tests of StateGiver and StateTaker: a worker that joins a running job asks another worker for its
// State (all that it needs to continue), and gets it in pieces.
#include "common/protocol/members/session/state_transfer.h"

#include <gtest/gtest.h>

#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using Progress = StateTaker::Progress;

TEST(StateTransfer, CarriesAStatePieceByPiece) {
  StateGiver giver(1000, 4);
  StateTaker taker(100);
  std::optional<Message> piece;
  EXPECT_TRUE(giver.OnWant(taker.Want(2, 22).head.state_want(), &piece));
  EXPECT_FALSE(piece.has_value());
  // This is the same request again.
  EXPECT_FALSE(giver.OnWant(taker.Want(2, 22).head.state_want(), &piece));
  std::vector<Message> pieces = giver.OnSnapshot(Text("abcdefghij"), 5, 9, 7);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].head.state_piece().pieces(), 3u);
  EXPECT_EQ(taker.OnPiece(pieces[0].head.state_piece(), pieces[0].payload), Progress::kNext);
  EXPECT_EQ(taker.OnPiece(pieces[0].head.state_piece(), pieces[0].payload), Progress::kIgnored);
  for (Progress expected : {Progress::kNext, Progress::kComplete}) {
    piece.reset();
    EXPECT_FALSE(giver.OnWant(taker.Want(2, 22).head.state_want(), &piece));
    ASSERT_TRUE(piece.has_value());
    EXPECT_EQ(taker.OnPiece(piece->head.state_piece(), piece->payload), expected);
  }
  EXPECT_EQ(taker.OnPiece(piece->head.state_piece(), piece->payload), Progress::kIgnored);
  EXPECT_EQ(View(taker.TakeState()), "abcdefghij");
  EXPECT_EQ(taker.applied(), 5u);
  EXPECT_EQ(taker.stop_after(), 9u);
}

TEST(StateTransfer, SendsAnEmptyStateAsOnePiece) {
  StateGiver giver(1000, 4);
  StateTaker taker(0);
  std::optional<Message> piece;
  giver.OnWant(taker.Want(0, 1).head.state_want(), &piece);
  const std::vector<Message> pieces = giver.OnSnapshot({}, 1, 0, 1);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(taker.OnPiece(pieces[0].head.state_piece(), pieces[0].payload), Progress::kComplete);
}

TEST(StateTransfer, StartsAgainWithAnotherSnapshot) {
  StateTaker taker(100);
  pb::StatePiece piece;
  piece.set_transfer(1);
  piece.set_pieces(3);
  EXPECT_EQ(taker.OnPiece(piece, Text("old")), Progress::kNext);
  piece.set_transfer(2);
  piece.set_piece(1);
  EXPECT_EQ(taker.OnPiece(piece, Text("new")), Progress::kNext);
  EXPECT_EQ(taker.Want(0, 1).head.state_want().piece(), 0u);
}

TEST(StateTransfer, RefusesMoreThanTheModelHas) {
  StateTaker taker(5);
  pb::StatePiece piece;
  piece.set_transfer(1);
  piece.set_pieces(2);
  EXPECT_EQ(taker.OnPiece(piece, Text("abc")), Progress::kNext);
  piece.set_piece(1);
  EXPECT_EQ(taker.OnPiece(piece, Text("abc")), Progress::kTooLarge);
}

TEST(StateTransfer, KeepsASnapshotForEachTakerUntilTheFloorPassesIt) {
  StateGiver giver(1000, 100);
  std::optional<Message> piece;
  EXPECT_TRUE(giver.OnWant(StateTaker(9).Want(1, 11).head.state_want(), &piece));
  EXPECT_TRUE(giver.OnWant(StateTaker(9).Want(2, 22).head.state_want(), &piece));
  EXPECT_EQ(giver.OnSnapshot(Text("s"), 5, 0, 0).size(), 2u);
  EXPECT_EQ(giver.num_snapshots(), 2u);
  EXPECT_TRUE(giver.OnWant(StateTaker(9).Want(2, 23).head.state_want(),
                           &piece));  // This is a new process of rank 2.
  giver.OnFloor(5);
  EXPECT_EQ(giver.num_snapshots(), 2u);
  giver.OnFloor(6);
  EXPECT_EQ(giver.num_snapshots(), 1u);  // The remaining snapshot is for the new process of rank 2.
}

}  // namespace
}  // namespace tern::protocol::test
