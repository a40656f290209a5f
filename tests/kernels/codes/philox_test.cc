// Tests of the counter-based random number generator Philox4x32 and of its keys (NoiseKey). Every
// element of a tensor has 16 random bits at level 0, and 16 more at level 1.
#include "kernels/codes/philox.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/codes/philox_math.h"

namespace tern::kernels {
namespace {

using Block = std::array<uint32_t, 4>;

TEST(Philox, MatchesPublishedTestVectors) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

const NoiseKey kKey = {.seed = 0x0123456789abcdef,
                       .stream = NoiseStream::kDropout,
                       .rank = 0xbeef,
                       .round = 0x1111111122222222,
                       .tensor = 0x33333333};

TEST(Philox, LaysOutKeyAndCounterAsDocumented) {
  EXPECT_EQ(NoiseBlock(kKey, 7, 1),
            Philox4x32({7, 0x33333333, 0x22222222, 0x0601beef}, {0x89abcdef, 0x01234567}));
}

TEST(Philox, AssignsEachElementItsHalfWord) {
  const Block block = NoiseBlock(kKey, 5, 0);
  for (uint64_t slot = 0; slot < 8; ++slot) {
    const uint32_t word = block[slot / 2];
    const uint32_t expected = slot % 2 == 0 ? word & 0xffff : word >> 16;
    EXPECT_EQ(Draw16(kKey, 5 * 8 + slot, 0), expected);
  }
}

TEST(Philox, RefinesADrawByTheSamePositionAtLevelOne) {
  for (const uint64_t element : {0, 1, 17, 123456}) {
    EXPECT_EQ(Draw32(kKey, element),
              uint32_t{Draw16(kKey, element, 0)} << 16 | Draw16(kKey, element, 1));
  }
}

TEST(Philox, GivesEightDrawsFromAnyElementOn) {
  for (uint64_t element = 40; element < 56; ++element) {
    const PhiloxWords draws = NoiseOfEight(kKey, element);
    for (uint32_t k = 0; k < 8; ++k)
      EXPECT_EQ(DrawOf(draws, k), Draw16(kKey, element + k, 0)) << element << " + " << k;
  }
}

TEST(Philox, StreamNumbersAreFixed) {
  EXPECT_EQ(static_cast<int>(NoiseStream::kCodes), 1);
  EXPECT_EQ(static_cast<int>(NoiseStream::kServerCodes), 2);
  EXPECT_EQ(static_cast<int>(NoiseStream::kInit), 3);
  EXPECT_EQ(static_cast<int>(NoiseStream::kOrder), 4);
  EXPECT_EQ(static_cast<int>(NoiseStream::kAugmentation), 5);
  EXPECT_EQ(static_cast<int>(NoiseStream::kDropout), 6);
}

TEST(Philox, EveryPartOfTheKeyChangesTheNoise) {
  std::set<Block> blocks;
  NoiseKey key;
  blocks.insert(NoiseBlock(key, 0, 0));
  blocks.insert(NoiseBlock(key, 1, 0));
  blocks.insert(NoiseBlock(key, 0, 1));
  blocks.insert(NoiseBlock({.seed = 1}, 0, 0));
  blocks.insert(NoiseBlock({.seed = uint64_t{1} << 32}, 0, 0));
  blocks.insert(NoiseBlock({.stream = NoiseStream::kInit}, 0, 0));
  blocks.insert(NoiseBlock({.rank = 1}, 0, 0));
  blocks.insert(NoiseBlock({.round = 1}, 0, 0));
  blocks.insert(NoiseBlock({.tensor = 1}, 0, 0));
  EXPECT_EQ(blocks.size(), 9u);
}

}  // namespace
}  // namespace tern::kernels
