// Tests the kernels that convert ternary codes {-1, 0, 1} and their sums over workers to symbols of
// the ANS entropy coder and back, against plain reference functions. A symbol is the code plus 1,
// or the sum plus the number of workers. A ternary code in memory is a mask (one bit per element:
// is it not 0?) and one sign bit per mask bit that is 1. The value 77 or 42 marks bytes that must
// not change.
#include "kernels/codes/ans_symbols.h"

#include <algorithm>
#include <cstring>

#include "kernels/codes/planes.h"
#include "kernels/codes/ternary.h"
#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

class AnsSymbolsOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(AnsSymbolsOnTarget);

using Bytes = std::vector<uint8_t>;

// Returns n random symbols of codes. On average, `zeros` of 16 are symbol 1, which means code 0.
Bytes SomeCodes(size_t n, unsigned zeros, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes symbols(n);
  for (uint8_t& s : symbols) {
    const uint64_t draw = random();
    s = static_cast<uint8_t>(draw % 16 < zeros ? 1 : draw >> 32 & 2);
  }
  return symbols;
}

struct Code {
  Bytes mask, signs;
};
// Converts symbols to a mask and signs with the reference function.
Code ReferenceCode(const Bytes& symbols) {
  Code code{Bytes(PlaneBytes(symbols.size())), Bytes(PlaneBytes(symbols.size()) + 8)};
  const size_t ones =
      CodeOfSymbolsRef(symbols.data(), symbols.size(), 0, code.mask.data(), code.signs.data());
  code.signs.resize(PlaneBytes(ones));
  code.signs.shrink_to_fit();
  return code;
}

TEST_P(AnsSymbolsOnTarget, CodesMatchReferenceAtEveryLength) {
  for (const size_t n : Lengths()) {
    for (const unsigned zeros : {0, 11, 16}) {
      SCOPED_TRACE(testing::Message() << n << ", " << zeros << " of 16");
      const Bytes symbols = SomeCodes(n, zeros, n);
      const Code code = ReferenceCode(symbols);
      Bytes back(n + 1, 77);
      const size_t ones =
          SymbolsOfCode(code.mask.data(), n, code.signs.data(), code.signs.size(), 0, back.data());
      EXPECT_EQ(ones, CountOnes(code.mask.data(), n));
      EXPECT_EQ(back.back(), 77);
      back.pop_back();
      EXPECT_EQ(back, symbols);
      Bytes mask(PlaneBytes(n) + 1, 77), signs(PlaneBytes(ones) + 8, 77);
      EXPECT_EQ(CodeOfSymbols(symbols.data(), n, 0, mask.data(), signs.data()), ones);
      EXPECT_EQ(mask.back(), 77);
      EXPECT_TRUE(std::equal(code.mask.begin(), code.mask.end(), mask.begin()));
      EXPECT_TRUE(std::equal(code.signs.begin(), code.signs.end(), signs.begin()));
    }
  }
}

TEST_P(AnsSymbolsOnTarget, ConvertingInPartsEqualsConvertingAtOnce) {
  constexpr size_t kN = 5000;
  for (const size_t part : {64, 192, 1024, 4096}) {
    const Bytes symbols = SomeCodes(kN, 11, part);
    const Code code = ReferenceCode(symbols);
    Bytes back(kN), mask(PlaneBytes(kN)), signs(PlaneBytes(kN) + 8, 77);
    size_t read = 0, written = 0;
    for (size_t at = 0; at < kN; at += part) {
      const size_t n = std::min(part, kN - at);
      read = SymbolsOfCode(code.mask.data() + at / 8, n, code.signs.data(), code.signs.size(), read,
                           back.data() + at);
      written = CodeOfSymbols(symbols.data() + at, n, written, mask.data() + at / 8, signs.data());
    }
    EXPECT_EQ(read, written);
    EXPECT_EQ(back, symbols);
    EXPECT_EQ(mask, code.mask);
    signs.resize(PlaneBytes(written));
    EXPECT_EQ(signs, code.signs);
  }
}

TEST_P(AnsSymbolsOnTarget, SumsMatchReference) {
  for (const int workers : {1, 2, 3, 4, 7, 8, 15, 64, 127}) {
    for (const size_t n : {1, 63, 64, 65, 1000, 4096, 9001}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, " << n);
      Bytes planes(static_cast<size_t>(SumBits(workers)) * PlaneBytes(n));
      for (int rank = 0; rank < workers; ++rank) {
        const Code code = ReferenceCode(SomeCodes(n, 5, n + static_cast<size_t>(rank)));
        Bytes placed(PlaneBytes(n));
        SpreadSigns(code.mask.data(), n, code.signs, placed.data());
        const WorkerCodes worker{code.mask.data(), placed.data()};
        AddCodes({&worker, 1}, n, PlaneBytes(n), SumBits(workers), SumBits(workers), planes.data());
      }
      for (const size_t first : {size_t{0}, n / 2 / 64 * 64}) {
        for (const size_t count : {n - first, (n - first) / 2}) {
          Bytes fast(count + 1, 77), reference(count);
          SymbolsOfSum(planes.data(), n, workers, first, count, fast.data());
          SymbolsOfSumRef(planes.data(), n, workers, first, count, reference.data());
          EXPECT_EQ(fast.back(), 77);
          fast.pop_back();
          ASSERT_EQ(fast, reference);
        }
      }
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
      std::vector<float> fast(n + 1, 42), reference(n + 1, 42);
      MeansOfSymbols(symbols.data(), n, workers, 0.1f, fast.data());
      MeansOfSymbolsRef(symbols.data(), n, workers, 0.1f, reference.data());
      EXPECT_EQ(std::memcmp(fast.data(), reference.data(), 4 * fast.size()), 0);
      for (size_t i = 0; i < n; ++i) {
        EXPECT_EQ(fast[i], static_cast<float>(double{0.1f} * (symbols[i] - workers) / workers));
      }
    }
  }
}

}  // namespace
}  // namespace tern::kernels
