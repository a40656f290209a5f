// Tests the kernels that convert ternary codes {-1, 0, 1} and their sums over workers to symbols of
// the ANS entropy coder and back, against plain reference functions. A symbol is the code plus 1,
// or the sum plus the number of workers. A ternary code in memory is a mask (one bit per element:
// is it not 0?) and one sign bit per mask bit that is 1. Bytes that must not change have the value
// 77; such floats have the value 42.
#include "kernels/codes/ans_symbols.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/codes/planes.h"
#include "kernels/codes/ternary.h"
#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

class AnsSymbolsOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(AnsSymbolsOnTarget);

using Bytes = std::vector<uint8_t>;

// Returns n random symbols of codes. On average, `zeros_in_16` of 16 are symbol 1 (code 0).
Bytes RandomSymbols(size_t n, unsigned zeros_in_16, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes symbols(n);
  for (uint8_t& s : symbols) {
    const uint64_t draw = random();
    s = static_cast<uint8_t>(draw % 16 < zeros_in_16 ? 1 : draw >> 32 & 2);
  }
  return symbols;
}

struct Code {
  Bytes mask, signs;
};
// Converts symbols to a mask and signs with the reference function.
Code CodeOf(const Bytes& symbols) {
  Code code{Bytes(PlaneBytes(symbols.size())), Bytes(PlaneBytes(symbols.size()) + 8)};
  const size_t num_ones =
      CodeOfSymbolsRef(symbols.data(), symbols.size(), 0, code.mask.data(), code.signs.data());
  code.signs.resize(PlaneBytes(num_ones));
  code.signs.shrink_to_fit();
  return code;
}

TEST_P(AnsSymbolsOnTarget, CodesMatchReferenceAtEveryLength) {
  for (const size_t n : Lengths()) {
    for (const unsigned zeros_in_16 : {0, 11, 16}) {
      SCOPED_TRACE(testing::Message() << n << ", " << zeros_in_16 << " of 16");
      const Bytes symbols = RandomSymbols(n, zeros_in_16, n);
      const Code code = CodeOf(symbols);
      Bytes decoded(n + 1, 77);
      const size_t num_ones = SymbolsOfCode(code.mask.data(), n, code.signs.data(),
                                            code.signs.size(), 0, decoded.data());
      EXPECT_EQ(num_ones, CountOnes(code.mask.data(), n));
      EXPECT_EQ(decoded.back(), 77);
      decoded.pop_back();
      EXPECT_EQ(decoded, symbols);
      Bytes mask(PlaneBytes(n) + 1, 77), signs(PlaneBytes(num_ones) + 8, 77);
      EXPECT_EQ(CodeOfSymbols(symbols.data(), n, 0, mask.data(), signs.data()), num_ones);
      EXPECT_EQ(mask.back(), 77);
      EXPECT_TRUE(std::equal(code.mask.begin(), code.mask.end(), mask.begin()));
      EXPECT_TRUE(std::equal(code.signs.begin(), code.signs.end(), signs.begin()));
    }
  }
}

TEST_P(AnsSymbolsOnTarget, ConvertingInPartsEqualsConvertingAtOnce) {
  constexpr size_t kN = 5000;
  for (const size_t part_size : {64, 192, 1024, 4096}) {
    const Bytes symbols = RandomSymbols(kN, 11, part_size);
    const Code code = CodeOf(symbols);
    Bytes decoded(kN), mask(PlaneBytes(kN)), signs(PlaneBytes(kN) + 8, 77);
    size_t num_signs_read = 0, num_signs_written = 0;
    for (size_t begin = 0; begin < kN; begin += part_size) {
      const size_t count = std::min(part_size, kN - begin);
      num_signs_read = SymbolsOfCode(code.mask.data() + begin / 8, count, code.signs.data(),
                                     code.signs.size(), num_signs_read, decoded.data() + begin);
      num_signs_written = CodeOfSymbols(symbols.data() + begin, count, num_signs_written,
                                        mask.data() + begin / 8, signs.data());
    }
    EXPECT_EQ(num_signs_read, num_signs_written);
    EXPECT_EQ(decoded, symbols);
    EXPECT_EQ(mask, code.mask);
    signs.resize(PlaneBytes(num_signs_written));
    EXPECT_EQ(signs, code.signs);
  }
}

TEST_P(AnsSymbolsOnTarget, SumsMatchReference) {
  for (const int workers : {1, 2, 3, 4, 7, 8, 15, 64, 127}) {
    for (const size_t n : {1, 63, 64, 65, 1000, 4096, 9001}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, " << n);
      Bytes planes(static_cast<size_t>(SumBits(workers)) * PlaneBytes(n));
      for (int rank = 0; rank < workers; ++rank) {
        const Code code = CodeOf(RandomSymbols(n, 5, n + static_cast<size_t>(rank)));
        Bytes sign_plane(PlaneBytes(n));
        SpreadSigns(code.mask.data(), n, code.signs, sign_plane.data());
        const WorkerCodes codes_of_worker{code.mask.data(), sign_plane.data()};
        AddCodes({&codes_of_worker, 1}, 2, n, PlaneBytes(n), SumBits(workers), SumBits(workers),
                 planes.data());
      }
      for (const size_t first : {size_t{0}, n / 2 / 64 * 64}) {
        for (const size_t count : {n - first, (n - first) / 2}) {
          Bytes actual(count + 1, 77), reference(count);
          const int bits = SumBits(workers);
          SymbolsOfPlanes(planes.data(), n, bits, workers, first, count, actual.data());
          SymbolsOfPlanesRef(planes.data(), n, bits, workers, first, count, reference.data());
          EXPECT_EQ(actual.back(), 77);
          actual.pop_back();
          ASSERT_EQ(actual, reference);
        }
      }
    }
  }
}

TEST_P(AnsSymbolsOnTarget, PlanesBecomeTheSameSymbolsAgain) {
  // The last symbol, and that of 0: of sums in [-N, N], and of all integers of so many bits.
  const std::pair<unsigned, int> cases[] = {{2, 1},     {6, 3}, {14, 7},  {62, 31},  {112, 56},
                                            {254, 127}, {3, 2}, {31, 16}, {255, 128}};
  for (const auto& [last_symbol, zero] : cases) {
    const int bits = std::bit_width(last_symbol);
    for (const size_t n : Lengths()) {
      SCOPED_TRACE(testing::Message() << last_symbol << ", n " << n);
      std::mt19937 random(static_cast<unsigned>(n));
      Bytes symbols(n);
      for (uint8_t& symbol : symbols) symbol = static_cast<uint8_t>(random() % (last_symbol + 1));
      const size_t stride = PlaneBytes(n) + n % 3;
      Bytes actual(static_cast<size_t>(bits) * stride + 1, 77), reference = actual;
      PlanesOfSymbols(symbols.data(), n, bits, zero, stride, actual.data());
      PlanesOfSymbolsRef(symbols.data(), n, bits, zero, stride, reference.data());
      ASSERT_EQ(actual, reference);
      if (n % 3 != 0) continue;
      Bytes symbols_again(n);
      SymbolsOfPlanes(actual.data(), n, bits, zero, 0, n, symbols_again.data());
      ASSERT_EQ(symbols_again, symbols);
    }
  }
}

TEST_P(AnsSymbolsOnTarget, MeansMatchThoseOfPlanes) {
  for (const int workers : {1, 2, 3, 4, 5, 8, 16, 40, 127}) {
    for (const size_t n : {0, 1, 7, 16, 17, 1000}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, " << n);
      std::mt19937 random(static_cast<unsigned>(workers));
      Bytes symbols(n);
      for (uint8_t& s : symbols) {
        s = static_cast<uint8_t>(random() % static_cast<unsigned>(2 * workers + 1));
      }
      std::vector<float> actual(n + 1, 42), reference(n + 1, 42);
      MeansOfSymbols(symbols.data(), n, workers, 0.1f, actual.data());
      MeansOfSymbolsRef(symbols.data(), n, workers, 0.1f, reference.data());
      EXPECT_EQ(std::memcmp(actual.data(), reference.data(), 4 * actual.size()), 0);
      for (size_t i = 0; i < n; ++i) {
        EXPECT_EQ(actual[i], static_cast<float>(double{0.1f} * (symbols[i] - workers) / workers));
      }
    }
  }
}

}  // namespace
}  // namespace tern::kernels
