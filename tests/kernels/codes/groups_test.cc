// Tests of what 1bitSGD and the sparse codecs do on a CPU (onebit.h, sparse.h): the vector code
// gives the bits of the scalar code.
#include <cmath>

#include "kernels/codes/onebit.h"
#include "kernels/codes/sparse.h"
#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

class GroupsOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(GroupsOnTarget);

// Values of very different sizes, so that sums depend on their order; some are zeros.
std::vector<float> SomeValues(size_t n) {
  std::vector<float> values = Gaussian(n, n + 1);
  for (size_t i = 0; i < n; ++i) values[i] *= std::exp2(static_cast<float>(i * 37 % 60));
  for (size_t i = 0; i < n; i += 5) values[i] = i % 2 == 0 ? 0.0f : -0.0f;
  return values;
}

TEST_P(GroupsOnTarget, SumsHaveTheReferencesBits) {
  for (const size_t n : Lengths()) {
    const std::vector<float> v = SomeValues(n);
    const OneBitSums sums = SumOneBit(v.data(), n), reference = SumOneBitRef(v.data(), n);
    ASSERT_EQ(sums.lower, reference.lower) << n;
    ASSERT_EQ(sums.upper, reference.upper) << n;
    ASSERT_EQ(sums.num_negatives, reference.num_negatives) << n;
    ASSERT_FALSE(std::signbit(sums.upper)) << n;
  }
}

TEST_P(GroupsOnTarget, RowsOfBitsEqualTheReferences) {
  for (const size_t n : Lengths()) {
    const std::vector<float> v = SomeValues(n);
    std::vector<uint8_t> bits(n / 8 + 2, 0x5A), reference = bits;
    PackOneBitSigns(v.data(), n, bits.data());
    PackOneBitSignsRef(v.data(), n, reference.data());
    ASSERT_EQ(bits, reference) << n;
    for (const float threshold : {0.f, 1.f, 1e9f, 1e30f}) {
      PackAtLeast(v.data(), n, threshold, bits.data());
      PackAtLeastRef(v.data(), n, threshold, reference.data());
      ASSERT_EQ(bits, reference) << n << ' ' << threshold;
    }
  }
}

TEST_P(GroupsOnTarget, LargeElementsAreCountedAndCollectedAsByTheReference) {
  for (const size_t n : Lengths()) {
    const std::vector<float> v = SomeValues(n);
    for (const float threshold : {0.f, 1.f, 1e9f, 1e30f}) {
      const size_t count = CountAtLeastRef(v.data(), n, threshold);
      ASSERT_EQ(CountAtLeast(v.data(), n, threshold), count) << n << ' ' << threshold;
      std::vector<float> large(n + kListRoom), reference = large;
      ASSERT_EQ(CollectAtLeast(v.data(), n, threshold, large.data()), count);
      ASSERT_EQ(CollectAtLeastRef(v.data(), n, threshold, reference.data()), count);
      large.resize(count), reference.resize(count);
      ASSERT_EQ(large, reference) << n << ' ' << threshold;
    }
  }
}

TEST_P(GroupsOnTarget, OnesAreListedAsByTheReference) {
  std::mt19937 random(4);
  for (const uint32_t one_in : {1, 2, 3, 8, 50}) {
    std::vector<uint8_t> bytes(8192);
    for (size_t i = 0; i < 8 * bytes.size(); ++i) {
      if (random() % one_in == 0) bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] | 1u << (i % 8));
    }
    for (const size_t begin : {0, 1, 7, 8, 13, 64, 3001}) {
      for (size_t end = begin; end <= 8 * bytes.size(); end += end < begin + 140 ? 1 : 7411) {
        // The row ends with the range, so that reading beyond it is an error.
        const std::vector<uint8_t> row(bytes.begin(),
                                       bytes.begin() + static_cast<int64_t>(end + 7) / 8);
        std::vector<uint16_t> reference(end - begin);
        reference.resize(ListOnesRef(row.data(), begin, end, reference.data()));
        std::vector<uint16_t> positions(reference.size() + kListRoom);
        ASSERT_EQ(ListOnes(row.data(), begin, end, positions.data()), reference.size());
        positions.resize(reference.size());
        ASSERT_EQ(positions, reference) << begin << ' ' << end;
      }
    }
  }
}

TEST_P(GroupsOnTarget, RangesOfSignsAreCountedAndExpandedAsByTheReference) {
  std::vector<uint8_t> bytes(600);
  std::mt19937 random(3);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (const uint64_t first : {0, 1, 7, 8, 64, 77, 3001}) {
    for (uint64_t count = 0; first + count <= 8 * bytes.size(); count += count < 140 ? 1 : 311) {
      // The row ends with the range, so that reading beyond it is an error.
      const std::vector<uint8_t> row(bytes.begin(),
                                     bytes.begin() + static_cast<int64_t>(first + count + 7) / 8);
      const OneBitSigns signs{row.data(), row.size(), first, count};
      ASSERT_EQ(CountOneBitSigns(signs), CountOneBitSignsRef(signs)) << first << ' ' << count;
      std::vector<float> values(count + 1, 7), reference = values;
      ExpandOneBitSigns(signs, -1.5f, 2.5f, values.data());
      ExpandOneBitSignsRef(signs, -1.5f, 2.5f, reference.data());
      ASSERT_EQ(values, reference) << first << ' ' << count;
    }
  }
}

}  // namespace
}  // namespace tern::kernels
