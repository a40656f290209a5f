// Tests of ternary codes as digits in base 3 (trits), 5 in a byte: that they follow the definition,
// and that fast kernels equal the reference at every length. Digit 2 means -1. The value 77 marks
// bytes that must not change.
#include "kernels/codes/trits.h"

#include <algorithm>

#include "kernels/codes/ternary.h"
#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

class TritsOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(TritsOnTarget);

using Bytes = std::vector<uint8_t>;

struct Code {
  Bytes mask, signs;  // One mask bit per element; one sign bit per mask bit that is 1.
};
Code CodeOf(const Bytes& trits, size_t n) {
  Code code{Bytes(PlaneBytes(n)), Bytes(PlaneBytes(n) + 8)};
  const size_t num_ones = CodeOfTritsRef(trits.data(), n, code.mask.data(), code.signs.data());
  code.signs.resize(PlaneBytes(num_ones));
  code.signs.shrink_to_fit();
  return code;
}

// Returns the trits of n elements: all 0 (kind 0), all -1 (kind 1), or random (kind 2).
Bytes MakeTrits(size_t n, int kind) {
  std::mt19937 random(static_cast<unsigned>(n));
  Bytes trits(TritBytes(n));
  for (size_t i = 0, power = 1; i < n; ++i, power = i % 5 == 0 ? 1 : 3 * power) {
    const unsigned trit = kind == 0 ? 0 : kind == 1 ? 2 : random() % 3;
    trits[i / 5] = static_cast<uint8_t>(trits[i / 5] + trit * power);
  }
  return trits;
}

TEST_P(TritsOnTarget, EveryByteDecodesToItsDigits) {
  for (unsigned byte = 0; byte < 243; ++byte) {
    // 64 bytes have 320 elements, which fast kernels decode at once.
    Bytes trits(64, static_cast<uint8_t>(byte));
    Bytes mask(40), signs(48);
    const size_t num_ones = CodeOfTrits(trits.data(), 320, mask.data(), signs.data());
    std::vector<int8_t> codes(320);
    ExpandCodes(mask.data(), signs.data(), 320, codes.data());
    size_t num_nonzero = 0;
    for (size_t i = 0; i < 320; ++i) {
      const unsigned powers[] = {1, 3, 9, 27, 81};
      const unsigned digit = byte / powers[i % 5] % 3;
      ASSERT_EQ(codes[i], digit == 2 ? -1 : static_cast<int>(digit)) << byte << " " << i;
      num_nonzero += digit != 0;
    }
    EXPECT_EQ(num_ones, num_nonzero);
    Bytes encoded_trits(64);
    TritsOfCode(mask.data(), signs.data(), PlaneBytes(num_ones), 320, encoded_trits.data());
    EXPECT_EQ(encoded_trits, trits);
  }
}

TEST_P(TritsOnTarget, EqualTheReferenceAtEveryLength) {
  std::vector<size_t> lengths = Lengths();
  for (const size_t n : {319, 320, 321, 639, 640, 641, 1600}) lengths.push_back(n);
  for (const size_t n : lengths) {
    for (int kind = 0; kind < 3; ++kind) {
      SCOPED_TRACE(testing::Message() << n << ", " << kind);
      const Bytes trits = MakeTrits(n, kind);
      const Code code = CodeOf(trits, n);
      Bytes actual(trits.size() + 1, 77), reference(trits.size());
      TritsOfCode(code.mask.data(), code.signs.data(), code.signs.size(), n, actual.data());
      TritsOfCodeRef(code.mask.data(), code.signs.data(), code.signs.size(), n, reference.data());
      EXPECT_EQ(reference, trits);
      EXPECT_EQ(actual.back(), 77);
      actual.pop_back();
      EXPECT_EQ(actual, trits);

      const size_t num_ones = CountOnes(code.mask.data(), n);
      Bytes mask(PlaneBytes(n) + 1, 77), signs(PlaneBytes(num_ones) + 8, 77);
      EXPECT_EQ(CodeOfTrits(trits.data(), n, mask.data(), signs.data()), num_ones);
      EXPECT_EQ(mask.back(), 77);
      EXPECT_TRUE(std::equal(code.mask.begin(), code.mask.end(), mask.begin()));
      EXPECT_TRUE(std::equal(code.signs.begin(), code.signs.end(), signs.begin()));
    }
  }
}

}  // namespace
}  // namespace tern::kernels
