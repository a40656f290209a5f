// Tests of the randomized Hadamard transform: against its definition, against the scalar code bit
// for bit, and that rotating back undoes it.
#include "kernels/codes/rotate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/codes/philox.h"
#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

class RotateOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(RotateOnTarget);

// The sign of an element, as rotate.h defines it.
double SignOf(const Rotation& rotation, uint64_t element) {
  const NoiseKey key{
      .seed = rotation.seed, .stream = NoiseStream::kRotation, .tensor = rotation.tensor};
  const uint32_t word =
      NoiseBlock(key, static_cast<uint32_t>(element / 128), 0)[element % 128 / 32];
  return (word >> element % 32 & 1) != 0 ? -1 : 1;
}

// The sizes of the blocks of n elements.
std::vector<size_t> BlocksOf(size_t n, size_t block) {
  std::vector<size_t> sizes(n / block, block);
  for (size_t left = n % block; left > 0; left -= sizes.back())
    sizes.push_back(std::bit_floor(left));
  return sizes;
}

// H D x / sqrt(n) of each block, in double, by the definition of H.
std::vector<double> DocumentedRotation(const std::vector<float>& x, uint64_t begin,
                                       const Rotation& rotation) {
  std::vector<double> y(x.size());
  size_t at = 0;
  for (const size_t n : BlocksOf(x.size(), rotation.block)) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        const double entry = std::popcount(i & j) % 2 == 1 ? -1 : 1;
        y[at + i] += entry * SignOf(rotation, begin + at + j) * static_cast<double>(x[at + j]);
      }
      y[at + i] /= std::sqrt(static_cast<double>(n));
    }
    at += n;
  }
  return y;
}

double NormOf(const float* x, size_t n) {
  return std::sqrt(std::inner_product(x, x + n, x, 0.0, std::plus<>(), [](float a, float b) {
    return static_cast<double>(a) * static_cast<double>(b);
  }));
}

// All sizes of blocks.
std::vector<uint64_t> Sizes() {
  std::vector<uint64_t> sizes;
  for (uint64_t block = kMinRotation; block <= kMaxRotation; block *= 2) sizes.push_back(block);
  return sizes;
}

TEST(Rotate, IsTheRandomizedHadamardTransform) {
  for (const size_t n : {1, 2, 3, 64, 100, 128, 255, 700}) {
    for (const uint64_t block : {64, 128, 512}) {
      SCOPED_TRACE(testing::Message() << n << " elements, blocks of " << block);
      const Rotation rotation{.seed = 5, .tensor = 3, .block = block};
      const std::vector<float> x = Gaussian(n, n);
      const std::vector<double> expected = DocumentedRotation(x, 2 * block, rotation);
      std::vector<float> y(n);
      Rotate(x.data(), 2 * block, n, rotation, y.data());
      for (size_t i = 0; i < n; ++i) EXPECT_NEAR(y[i], expected[i], 1e-5) << i;
    }
  }
}

// Also tells -0 from 0.
bool HaveSameBits(const std::vector<float>& a, const float* b) {
  return std::memcmp(a.data(), b, a.size() * sizeof(float)) == 0;
}

TEST_P(RotateOnTarget, EqualsTheReferenceBitForBit) {
  for (const uint64_t block : Sizes()) {
    for (const size_t n : {size_t{1}, size_t{63}, size_t{777}, block, 2 * block + 4095}) {
      SCOPED_TRACE(testing::Message() << n << " elements, blocks of " << block);
      const Rotation rotation{.seed = 0x123456789abcdef, .tensor = 7, .block = block};
      std::vector<float> x = Gaussian(n + 1, n);  // The first one makes the others unaligned.
      for (size_t i = 0; i < n; i += 3) x[i] *= 0x1p-30f;  // so that the order of additions matters
      std::vector<float> expected(n), y(n);
      RotateRef(x.data() + 1, 3 * block, n, rotation, expected.data());
      Rotate(x.data() + 1, 3 * block, n, rotation, y.data());
      EXPECT_TRUE(HaveSameBits(expected, y.data()));
      Rotate(x.data() + 1, 3 * block, n, rotation, x.data() + 1);
      EXPECT_TRUE(HaveSameBits(expected, x.data() + 1)) << "in place";
      RotateBackRef(y.data(), 3 * block, n, rotation, expected.data());
      RotateBack(y.data(), 3 * block, n, rotation, y.data());
      EXPECT_TRUE(HaveSameBits(expected, y.data())) << "back";
    }
  }
}

TEST_P(RotateOnTarget, KeepsNormsAndIsUndone) {
  for (const uint64_t block : Sizes()) {
    const size_t n = block + 4095;
    SCOPED_TRACE(block);
    const Rotation rotation{.seed = 1, .tensor = 0, .block = block};
    const std::vector<float> x = Gaussian(n, block);
    std::vector<float> y(n), back(n);
    Rotate(x.data(), 0, n, rotation, y.data());
    size_t at = 0;
    for (const size_t size : BlocksOf(n, block)) {
      const double norm = NormOf(x.data() + at, size);
      EXPECT_NEAR(NormOf(y.data() + at, size), norm, 1e-6 * norm);
      at += size;
    }
    RotateBack(y.data(), 0, n, rotation, back.data());
    // Each of at most 2 * 16 stages rounds, relative to values of about 1.
    for (size_t i = 0; i < n; ++i) ASSERT_NEAR(back[i], x[i], 5e-6) << i;
  }
}

// All elements of a block share what one element has, as codes need it.
TEST_P(RotateOnTarget, SpreadsOneElementOverItsBlock) {
  const Rotation rotation{.seed = 1, .tensor = 0, .block = 4096};
  std::vector<float> x(8192);
  x[5000] = 64;
  Rotate(x.data(), 0, x.size(), rotation, x.data());
  for (size_t i = 0; i < 4096; ++i) ASSERT_EQ(x[i], 0) << i;
  for (size_t i = 4096; i < 8192; ++i) ASSERT_EQ(std::abs(x[i]), 1) << i;
}

TEST_P(RotateOnTarget, ShowsValuesThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x(300, 1.f);
    x[70] = bad;
    Rotate(x.data(), 0, x.size(), {.seed = 1, .tensor = 0, .block = 256}, x.data());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(std::isfinite(x[i]), i >= 256) << i;
  }
}

// Different tensors, blocks and seeds have different signs, each about as often -1 as +1.
TEST(Rotate, HasSignsOfItsOwnForEachTensorAndSeed) {
  const std::vector<float> ones(4096, 1.f);
  const auto rotated = [&](const Rotation& rotation, uint64_t begin) {
    std::vector<float> y(ones.size());
    Rotate(ones.data(), begin, y.size(), rotation, y.data());
    return y;
  };
  const auto first = rotated({.seed = 1, .tensor = 0, .block = 4096}, 0);
  EXPECT_NE(first, rotated({.seed = 2, .tensor = 0, .block = 4096}, 0));
  EXPECT_NE(first, rotated({.seed = 1, .tensor = 1, .block = 4096}, 0));
  EXPECT_NE(first, rotated({.seed = 1, .tensor = 0, .block = 4096}, 4096));
  // Element 0 is the sum of the signs, over 64: of 4096 fair signs, at most 5 sigma.
  EXPECT_LT(std::abs(first[0]), 5);
}

TEST(Rotate, HasBlocksOfPowersOfTwo) {
  for (const uint64_t block : Sizes()) EXPECT_TRUE(IsRotationBlock(block)) << block;
  for (const uint64_t block : {0, 1, 32, 63, 65, 4095, 131072})
    EXPECT_FALSE(IsRotationBlock(block)) << block;
}

}  // namespace
}  // namespace tern::kernels
