// Tests of sums of integer codes over workers, most of them of ternary codes {-1, 0, 1}. A sum of n
// elements is stored as bit planes: plane p has bit p of every element, in two's complement.
// SumBits(workers) is the number of planes of a sum of ternary codes.
#include "kernels/codes/planes.h"

#include <algorithm>
#include <bit>

#include "kernels/codes/ternary.h"
#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

class PlanesOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(PlanesOnTarget);

struct Codes {
  std::vector<int8_t> values;
  std::vector<uint8_t> mask;
  std::vector<uint8_t> signs;  // One bit per mask bit that is 1: is the code -1?
};

Codes RandomCodes(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  Codes codes;
  codes.mask.resize(PlaneBytes(n));
  codes.signs.resize(PlaneBytes(n));
  size_t num_ones = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t draw = random() >> 32;
    codes.values.push_back(draw % 3 == 0 ? 0 : draw % 2 == 0 ? 1 : -1);
    if (codes.values[i] == 0) continue;
    codes.mask[i / 8] |= static_cast<uint8_t>(1 << (i % 8));
    if (codes.values[i] < 0) codes.signs[num_ones / 8] |= static_cast<uint8_t>(1 << (num_ones % 8));
    ++num_ones;
  }
  codes.signs.resize(PlaneBytes(num_ones));
  codes.signs.shrink_to_fit();
  return codes;
}

// Returns the signs as a plane: one bit per element, in the element's position.
std::vector<uint8_t> SignPlaneOf(const Codes& codes) {
  std::vector<uint8_t> signs(codes.mask.size());
  for (size_t i = 0; i < codes.values.size(); ++i) {
    signs[i / 8] |= static_cast<uint8_t>((codes.values[i] < 0) << (i % 8));
  }
  return signs;
}

// Adds the codes of one worker to a sum of `num_planes` planes, which lie one after the other.
void AddWorker(const Codes& codes, size_t n, int num_planes, uint8_t* planes) {
  const std::vector<uint8_t> sign_plane = SignPlaneOf(codes);
  const WorkerCodes worker_codes{codes.mask.data(), sign_plane.data()};
  AddCodes({&worker_codes, 1}, 2, n, PlaneBytes(n), num_planes, num_planes, planes);
}

// Returns the sum of element i.
int SumAt(const std::vector<uint8_t>& planes, size_t n, int num_planes, size_t i) {
  int sum = 0;
  for (int p = 0; p < num_planes; ++p) {
    const int bit = planes[static_cast<size_t>(p) * PlaneBytes(n) + i / 8] >> (i % 8) & 1;
    sum += p + 1 == num_planes ? -(bit << p) : bit << p;
  }
  return sum;
}

// Sets the bits of element i to `pattern`.
void SetSum(std::vector<uint8_t>* planes, size_t n, int num_planes, size_t i, unsigned pattern) {
  for (int p = 0; p < num_planes; ++p) {
    uint8_t& byte = (*planes)[static_cast<size_t>(p) * PlaneBytes(n) + i / 8];
    byte = static_cast<uint8_t>(byte & ~(1 << (i % 8)));
    byte = static_cast<uint8_t>(byte | (pattern >> p & 1) << (i % 8));
  }
}

TEST(SumBits, HoldsAllSums) {
  const int expected[] = {0, 2, 3, 3, 4, 4, 4, 4, 5};
  for (int workers = 1; workers <= 8; ++workers) EXPECT_EQ(SumBits(workers), expected[workers]);
  EXPECT_EQ(SumBits(15), 5);
  EXPECT_EQ(SumBits(16), 6);
  EXPECT_EQ(SumBits(64), 8);
  EXPECT_EQ(SumBits(127), 8);
  EXPECT_EQ(SumBits(128), 9);
  EXPECT_EQ(SumBits(8 * 7), 7) << "8 workers of 4 bits";
  EXPECT_EQ(SumBits(1024 * 127), 18) << "1,024 workers of 8 bits";
}

// Returns random planes of codes of `bits` bits, the last of them the signs.
std::vector<uint8_t> RandomPlanes(size_t n, int bits, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> planes(static_cast<size_t>(bits) * PlaneBytes(n));
  for (uint8_t& byte : planes) byte = static_cast<uint8_t>(random() >> 32);
  for (size_t end = PlaneBytes(n); end <= planes.size() && n % 8 != 0; end += PlaneBytes(n))
    planes[end - 1] &= static_cast<uint8_t>((1 << (n % 8)) - 1);  // Unused bits are zero.
  return planes;
}

// Adds the codes of 1 to 4 workers at once, up to the 10th worker. The smallest number of a code's
// bits is no code; it counts as 0.
TEST_P(PlanesOnTarget, SumsOfCodesOfSeveralBitsEqualSumsOfIntegers) {
  for (int bits = 2; bits <= 8; ++bits) {
    const int largest_code = (1 << (bits - 1)) - 1;
    for (const size_t n : {1, 63, 517, 4100, 40000}) {
      SCOPED_TRACE(testing::Message() << bits << " bits, n " << n);
      const size_t plane_bytes = PlaneBytes(n), stride = plane_bytes + n % 3;
      std::vector<uint8_t> actual(12 * stride + 1, 0x5A), reference = actual;
      std::vector<int> sums(n);
      int workers = 0, old_bits = 0;
      for (const size_t num_added : {1, 2, 4, 3}) {
        std::vector<std::vector<uint8_t>> planes;
        std::vector<WorkerCodes> codes;
        for (size_t c = 0; c < num_added; ++c) planes.push_back(RandomPlanes(n, bits, 10 * n + c));
        for (const std::vector<uint8_t>& each : planes) {
          const size_t sign_begin = static_cast<size_t>(bits - 1) * plane_bytes;
          codes.push_back({each.data(), each.data() + sign_begin});
          for (size_t i = 0; i < n; ++i) {
            const int code = SumAt(each, n, bits, i);
            sums[i] += code < -largest_code ? 0 : code;
          }
        }
        workers += static_cast<int>(num_added);
        const int new_bits = SumBits(workers * largest_code);
        AddCodes(codes, bits, n, stride, old_bits, new_bits, actual.data() + 1);
        AddCodesRef(codes, bits, n, stride, old_bits, new_bits, reference.data() + 1);
        old_bits = new_bits;
      }
      for (size_t i = 0; i < n; ++i) {
        int sum = 0;
        for (int p = 0; p < old_bits; ++p) {
          const int bit = actual[1 + static_cast<size_t>(p) * stride + i / 8] >> (i % 8) & 1;
          sum += p + 1 == old_bits ? -(bit << p) : bit << p;
        }
        ASSERT_EQ(sum, sums[i]) << i;
      }
      ASSERT_EQ(actual, reference);  // Also compares the unused bytes between planes.
    }
  }
}

TEST_P(PlanesOnTarget, SumsEqualSumsOfIntegers) {
  std::vector<int> worker_counts = {127, 128};
  for (int workers = 1; workers <= 16; ++workers) worker_counts.push_back(workers);
  for (const int workers : worker_counts) {
    for (const size_t n : {1, 63, 517, 4096, 9001}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, n " << n);
      const int num_planes = SumBits(workers);
      std::vector<uint8_t> planes(static_cast<size_t>(num_planes) * PlaneBytes(n));
      std::vector<int> sums(n);
      for (int worker = 0; worker < workers; ++worker) {
        const Codes codes = RandomCodes(n, n * 1000 + static_cast<size_t>(worker));
        AddWorker(codes, n, num_planes, planes.data());
        for (size_t i = 0; i < n; ++i) sums[i] += codes.values[i];
      }
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(SumAt(planes, n, num_planes, i), sums[i]) << i;
      std::vector<float> mean(n);
      ASSERT_TRUE(DecodeMean(planes.data(), n, workers, 0.3f, 0, n, mean.data()));
      for (size_t i = 0; i < n; ++i) {
        ASSERT_EQ(mean[i], static_cast<float>(double{0.3f} * sums[i] / workers)) << i;
      }
    }
  }
}

TEST_P(PlanesOnTarget, HoldTheLargestSumsOfBothSigns) {
  for (const int workers : {1, 2, 3, 7, 8, 127}) {
    constexpr size_t kN = 200;
    const int num_planes = SumBits(workers);
    const std::vector<uint8_t> full_mask(PlaneBytes(kN), 0xFF);
    for (const bool is_negative : {false, true}) {
      const std::vector<uint8_t> signs(PlaneBytes(kN), is_negative ? 0xFF : 0);
      std::vector<uint8_t> planes(static_cast<size_t>(num_planes) * PlaneBytes(kN));
      for (int i = 0; i < workers; ++i) {
        const WorkerCodes worker_codes{full_mask.data(), signs.data()};
        AddCodes({&worker_codes, 1}, 2, kN, PlaneBytes(kN), num_planes, num_planes, planes.data());
      }
      for (size_t i = 0; i < kN; ++i) {
        ASSERT_EQ(SumAt(planes, kN, num_planes, i), is_negative ? -workers : workers);
      }
    }
  }
}

TEST_P(PlanesOnTarget, AddingEqualsTheReferenceAtEveryLength) {
  for (const size_t n : Lengths()) {
    SCOPED_TRACE(n);
    const size_t size = 4 * PlaneBytes(n);
    std::vector<uint8_t> actual(size + 1);  // The sum begins at byte 1, so it is unaligned.
    std::vector<uint8_t> reference(size);
    for (uint64_t worker = 0; worker < 5; ++worker) {
      const Codes codes = RandomCodes(n, n + worker * 77);
      AddWorker(codes, n, 4, actual.data() + 1);
      const std::vector<uint8_t> sign_plane = SignPlaneOf(codes);
      const WorkerCodes worker_codes{codes.mask.data(), sign_plane.data()};
      AddCodesRef({&worker_codes, 1}, 2, n, PlaneBytes(n), 4, 4, reference.data());
    }
    EXPECT_EQ(actual[0], 0);
    EXPECT_TRUE(std::equal(reference.begin(), reference.end(), actual.begin() + 1));
  }
}

// Adds the codes of 1 to 4 workers at once. The number of planes grows with the number of workers.
// Sets sign bits of elements whose mask bit is 0; the kernel must ignore such sign bits.
TEST_P(PlanesOnTarget, AddingSeveralAtOnceEqualsTheReferenceAtEveryLength) {
  constexpr uint8_t kGuardByte = 0x5A;
  for (const size_t n : Lengths()) {
    const size_t stride = PlaneBytes(n) + n % 3;
    const size_t size = 5 * stride + 2;
    std::vector<uint8_t> actual(size, kGuardByte), reference(size, kGuardByte);
    int workers = 0;
    for (const size_t num_added : {1, 2, 1, 4, 3}) {
      SCOPED_TRACE(testing::Message() << num_added << " onto " << workers << ", n " << n);
      std::vector<Codes> codes;
      std::vector<std::vector<uint8_t>> sign_planes;
      std::vector<WorkerCodes> worker_codes;
      for (size_t c = 0; c < num_added; ++c) {
        codes.push_back(RandomCodes(n, n + 31 * num_added + c));
        sign_planes.push_back(SignPlaneOf(codes.back()));
        if (n != 0) sign_planes.back()[n / 16] |= static_cast<uint8_t>(~codes[c].mask[n / 16]);
      }
      for (size_t c = 0; c < num_added; ++c)
        worker_codes.push_back({codes[c].mask.data(), sign_planes[c].data()});
      const int old_num_planes = workers == 0 ? 0 : SumBits(workers);
      workers += static_cast<int>(num_added);
      AddCodes(worker_codes, 2, n, stride, old_num_planes, SumBits(workers), actual.data() + 1);
      AddCodesRef(worker_codes, 2, n, stride, old_num_planes, SumBits(workers),
                  reference.data() + 1);
      ASSERT_EQ(actual, reference);  // Also compares the unused bytes between planes.
    }
  }
}

TEST_P(PlanesOnTarget, PlaceSignsMatchesReference) {
  for (const size_t n : Lengths()) {
    SCOPED_TRACE(n);
    const Codes codes = RandomCodes(n, n);
    std::vector<uint8_t> actual(PlaneBytes(n) + 1, 42), reference(PlaneBytes(n));
    const size_t num_ones = CountOnes(codes.mask.data(), n);
    EXPECT_EQ(SpreadSigns(codes.mask.data(), n, codes.signs, actual.data()), num_ones);
    EXPECT_EQ(SpreadSignsRef(codes.mask.data(), n, codes.signs, reference.data()), num_ones);
    EXPECT_EQ(reference, SignPlaneOf(codes));
    EXPECT_EQ(actual.back(), 42);
    actual.pop_back();
    EXPECT_EQ(actual, reference);
  }
}

TEST_P(PlanesOnTarget, ReadsNoBytesBeyondTheLastSign) {
  // The arrays have exactly the needed size, so that the address sanitizer detects reads beyond the
  // end. The masks are dense, sparse and empty.
  for (const size_t n : {8, 64, 72, 128, 4096, 4160}) {
    for (const uint8_t byte : {0xFF, 0x81, 0x00}) {
      const std::vector<uint8_t> mask(PlaneBytes(n), byte);
      const std::vector<uint8_t> signs(PlaneBytes(CountOnes(mask.data(), n)), 0xFF);
      std::vector<uint8_t> sign_plane(PlaneBytes(n));
      SpreadSigns(mask.data(), n, signs, sign_plane.data());
      EXPECT_EQ(sign_plane, mask);
      // If there are fewer signs than ones in the mask, the missing signs are 0.
      SpreadSigns(mask.data(), n, std::span(signs).first(signs.size() / 2), sign_plane.data());
      EXPECT_EQ(CountOnes(sign_plane.data(), n), signs.size() / 2 * 8);
    }
  }
}

TEST_P(PlanesOnTarget, DecodesAnyRangeLikeReference) {
  constexpr size_t kN = 2000;
  for (const int workers : {1, 2, 3, 5, 8, 16, 40, 127, 1000, 5000, 130048}) {
    const int num_planes = SumBits(workers);
    std::mt19937 random(static_cast<unsigned>(workers));
    std::vector<uint8_t> planes(static_cast<size_t>(num_planes) * PlaneBytes(kN));
    for (size_t i = 0; i < kN; ++i) {
      const int sum = static_cast<int>(random() % static_cast<unsigned>(2 * workers + 1)) - workers;
      SetSum(&planes, kN, num_planes, i, static_cast<unsigned>(sum));
    }
    for (const size_t first : {0, 1, 7, 8, 13, 20, 64, 1000}) {
      for (const size_t count : {0, 1, 15, 64, 65, 500, 1000}) {
        SCOPED_TRACE(testing::Message() << workers << " " << first << " " << count);
        std::vector<float> actual(count + 1, 42), reference(count + 1, 42);
        ASSERT_TRUE(DecodeMean(planes.data(), kN, workers, 1.7f, first, count, actual.data()));
        ASSERT_TRUE(
            DecodeMeanRef(planes.data(), kN, workers, 1.7f, first, count, reference.data()));
        EXPECT_EQ(actual, reference);
        EXPECT_EQ(actual.back(), 42);
      }
    }
  }
}

TEST_P(PlanesOnTarget, DecodesToTheEndAtAnyLength) {
  for (const size_t n : Lengths()) {
    std::vector<uint8_t> planes(3 * PlaneBytes(n));
    const Codes codes = RandomCodes(n, n);
    AddWorker(codes, n, 3, planes.data());
    std::vector<float> mean(n);
    ASSERT_TRUE(DecodeMean(planes.data(), n, 2, 4.0f, 0, n, mean.data()));
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(mean[i], 2.0f * codes.values[i]) << n << " " << i;
  }
}

TEST_P(PlanesOnTarget, DecodeRejectsInvalidSums) {
  constexpr size_t kN = 300;
  for (const int workers : {1, 2, 4, 5, 8, 16, 17, 64, 100}) {
    const int num_planes = SumBits(workers);
    const int num_patterns = 1 << num_planes;
    for (int pattern = 0; pattern < num_patterns; ++pattern) {
      const int k = pattern < num_patterns / 2 ? pattern : pattern - num_patterns;
      const bool is_valid = std::abs(k) <= workers;
      for (const size_t index : {0, 63, 64, 299}) {
        std::vector<uint8_t> planes(static_cast<size_t>(num_planes) * PlaneBytes(kN));
        SetSum(&planes, kN, num_planes, index, static_cast<unsigned>(pattern));
        std::vector<float> mean(kN);
        EXPECT_EQ(DecodeMean(planes.data(), kN, workers, 1, 0, kN, mean.data()), is_valid) << k;
        EXPECT_EQ(DecodeMeanRef(planes.data(), kN, workers, 1, 0, kN, mean.data()), is_valid) << k;
        const size_t next_index = index + 1;  // Invalid sums outside the decoded range are ignored.
        EXPECT_TRUE(
            DecodeMean(planes.data(), kN, workers, 1, next_index, kN - next_index, mean.data()));
        EXPECT_TRUE(DecodeMean(planes.data(), kN, workers, 1, 0, index, mean.data()));
      }
    }
  }
}

TEST_P(PlanesOnTarget, MeansMatchTheDocumentedTableBitForBit) {
  constexpr int kNumWorkers = 7;  // Makes the quotients inexact.
  constexpr size_t kN = 15;
  std::vector<uint8_t> planes(4 * PlaneBytes(kN));
  for (size_t i = 0; i < kN; ++i) SetSum(&planes, kN, 4, i, static_cast<unsigned>(i) - kNumWorkers);
  for (const float s : {0.1f, 3.3e-39f, 3.4e38f}) {
    float mean[kN];
    ASSERT_TRUE(DecodeMean(planes.data(), kN, kNumWorkers, s, 0, kN, mean));
    for (int k = -kNumWorkers; k <= kNumWorkers; ++k) {
      const auto expected = static_cast<float>(double{s} * k / kNumWorkers);
      EXPECT_EQ(std::bit_cast<uint32_t>(mean[k + kNumWorkers]), std::bit_cast<uint32_t>(expected));
    }
  }
}

}  // namespace
}  // namespace tern::kernels
