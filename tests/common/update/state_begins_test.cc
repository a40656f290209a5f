#include "common/update/state_begins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

namespace tern::update {
namespace {

using testing::Each;
using testing::ElementsAre;
using Piece = std::tuple<size_t, size_t, uint64_t>;  // first, n, state_begin

std::vector<Piece> PiecesOf(StateBegins* begins, size_t first, size_t n, uint64_t number) {
  std::vector<Piece> pieces;
  begins->Visit(first, n, number, [&](size_t piece_first, size_t piece_n, uint64_t begin) {
    pieces.emplace_back(piece_first, piece_n, begin);
  });
  return pieces;
}

TEST(StateBegins, AreBeforeTheFirstUpdateAtFirst) {
  StateBegins begins({10});
  EXPECT_THAT(PiecesOf(&begins, 0, 10, 1), ElementsAre(Piece(0, 10, 0)));
  EXPECT_THAT(PiecesOf(&begins, 3, 4, 1000), ElementsAre(Piece(3, 4, 0)));
  EXPECT_THAT(begins.floats(), Each(0));
}

TEST(StateBegins, AreBeforeTheUpdateAfterAReset) {
  StateBegins begins({10});
  begins.Reset();
  EXPECT_EQ(begins.BeginOf(0, 21), 20u);
  EXPECT_EQ(begins.BeginOf(9, 21), 20u);
  EXPECT_EQ(begins.BeginOf(5, 30), 20u);
  begins.Reset();
  EXPECT_EQ(begins.BeginOf(5, 31), 30u);
}

TEST(StateBegins, DifferByRange) {
  StateBegins begins({4, 6, 10});
  begins.Reset(4);
  EXPECT_THAT(PiecesOf(&begins, 0, 10, 8),
              ElementsAre(Piece(0, 4, 0), Piece(4, 2, 7), Piece(6, 4, 0)));
  begins.Reset(6);
  EXPECT_THAT(PiecesOf(&begins, 5, 3, 9), ElementsAre(Piece(5, 1, 7), Piece(6, 2, 8)));
  EXPECT_THAT(PiecesOf(&begins, 4, 2, 9), ElementsAre(Piece(4, 2, 7)));
}

// A job that goes back has updates again whose number is not above that of the last reset.
TEST(StateBegins, AreNeverBehindTheUpdate) {
  StateBegins begins({10});
  begins.Reset();
  EXPECT_EQ(begins.BeginOf(0, 50), 49u);
  EXPECT_EQ(begins.BeginOf(0, 49), 48u);
}

TEST(StateBegins, SurviveAsFloats) {
  for (const uint64_t number : {uint64_t{1}, uint64_t{1} << 24, (uint64_t{1} << 45) + 12345}) {
    StateBegins begins({10}), restored({10}), at_reset({10});
    begins.Reset();
    std::copy(begins.floats().begin(), begins.floats().end(), at_reset.floats().begin());
    EXPECT_EQ(at_reset.BeginOf(0, number), number - 1);
    ASSERT_EQ(begins.BeginOf(0, number), number - 1);
    std::copy(begins.floats().begin(), begins.floats().end(), restored.floats().begin());
    EXPECT_EQ(restored.BeginOf(0, number + 7), number - 1);
  }
}

TEST(StateBegins, TakeNothingFromInvalidFloats) {
  for (const float value : {-1.f, std::nanf(""), INFINITY, 1e30f}) {
    StateBegins begins({10});
    begins.floats()[0] = begins.floats()[1] = value;
    EXPECT_EQ(begins.BeginOf(0, 5), 4u) << value;
  }
}

}  // namespace
}  // namespace tern::update
