// Tests that a GPU makes the same bytes as the codecs onebit and qsgd on the CPU, and decodes them
// to the same values. An arena is one array with the gradients of all parts.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "common/codec/qsgd_levels.h"
#include "kernels/codes/onebit.h"
#include "kernels/codes/onebit_math.h"
#include "kernels/codes/qsgd.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "tests/kernels/codes/device_coded.h"
#include "tests/kernels/same_bits.h"

namespace tern::kernels {
namespace {

using codec::Options;

// Encodes and decodes with 1-bit SGD on the device.
class OneBitCoder {
 public:
  // column_sizes[p]: how many elements of part p share a pair of means (a column).
  OneBitCoder(const std::vector<Part>& parts, const std::vector<uint64_t>& column_sizes)
      : parts_(parts),
        column_sizes_(column_sizes),
        tiling_(CutIntoTiles(parts)),
        code_ranges_(LayOutCodes(
            [&](size_t p) { return OneBitSize(parts[p].count, column_sizes[p]); }, &tiling_)),
        device_tiling_(tiling_),
        device_ranges_(code_ranges_),
        grouped_parts_(GroupParts(tiling_, column_sizes, &num_groups_)),
        partial_sums_(2 * tiling_.tiles.size()),
        done_counters_(std::vector<uint32_t>(tiling_.tiles.size())),
        means_(2 * num_groups_),
        num_bad_(std::vector<uint32_t>(1)) {}

  // Encodes the chunks. `residual` is the error feedback of all elements; null: no error feedback.
  CodesOfChunks Encode(const std::vector<float>& g, DeviceArray<float>* residual) {
    DeviceArray<float> arena(g);
    DeviceArray<uint8_t> out(tiling_.out_bytes);
    EXPECT_EQ(
        OneBitOnDevice(nullptr, arena.data(), residual == nullptr ? nullptr : residual->data(),
                       device_tiling_.Get(), grouped_parts_.data(), device_ranges_.data(),
                       {partial_sums_.data(), done_counters_.data(), means_.data()}, out.data(),
                       num_bad_.data()),
        0);
    std::vector<uint64_t> sizes(tiling_.chunks.size());
    for (size_t p = 0; p < parts_.size(); ++p)
      sizes[tiling_.parts[p].part.chunk] += code_ranges_[p].size;
    return SplitIntoChunks(out.Read(), tiling_, sizes);
  }
  std::vector<float> Decode(const CodeRow& row) {
    DeviceArray<uint8_t> codes(row.bytes);
    DeviceArray<CodeRange> ranges(row.ranges);
    DeviceArray<float> arena(std::vector<float>(parts_.back().begin + parts_.back().count));
    EXPECT_EQ(ReadOneBitOnDevice(nullptr, device_tiling_.Get(), codes.data(), grouped_parts_.data(),
                                 ranges.data(), arena.data(), num_bad_.data()),
              0);
    return arena.Read();
  }
  // 0 until a column whose mean is not finite is encoded or an invalid code is decoded.
  uint32_t num_bad() const { return num_bad_.Read()[0]; }

 private:
  std::vector<Part> parts_;
  std::vector<uint64_t> column_sizes_;
  Tiling tiling_;
  std::vector<CodeRange> code_ranges_;
  uint64_t num_groups_ = 0;
  TilingOnDevice device_tiling_;
  DeviceArray<CodeRange> device_ranges_;
  DeviceArray<GroupedPart> grouped_parts_;
  DeviceArray<OneBitSums> partial_sums_;
  DeviceArray<uint32_t> done_counters_;
  DeviceArray<float> means_;
  DeviceArray<uint32_t> num_bad_;
};

// The sizes of the parts and of their columns: one element, a few, about as many as a tile has
// (4096), and several tiles. A column may be longer than its part.
const std::vector<uint64_t> kPartSizes = {1,    7,    4096, 205,   415,   4097,
                                          9000, 8191, 3000, 20000, 17000, 24576};
const std::vector<uint64_t> kColumnSizes = {1,    3,    1,    9,        16,   512,
                                            4097, 4096, 1000, 1u << 31, 5000, 8192};

void ExpectOneBitMatchesCpu(const std::vector<std::vector<float>>& gradients_by_round,
                            bool has_feedback) {
  const auto parts = MakeParts(kPartSizes);
  const auto codec = MakeCheckedCodec("onebit", {});
  OneBitCoder coder(parts, kColumnSizes);
  DeviceArray<float> residual(std::vector<float>(ArenaSize(parts)));
  std::vector<std::unique_ptr<codec::Memory>> memories;
  for (const Part& part : parts) memories.push_back(codec->NewMemory(part.count));
  for (const std::vector<float>& g : gradients_by_round) {
    const CodesOfChunks device_chunks = coder.Encode(g, has_feedback ? &residual : nullptr);
    std::vector<float> device_residual = residual.Read();
    CodesOfChunks expected_chunks;
    CodeRow row;
    std::vector<float> decoded(ArenaSize(parts));
    for (size_t p = 0; p < parts.size(); ++p) {
      const Part& part = parts[p];
      if (part.chunk == expected_chunks.size()) expected_chunks.emplace_back();
      std::vector<float> part_values(
          g.begin() + static_cast<std::ptrdiff_t>(part.begin),
          g.begin() + static_cast<std::ptrdiff_t>(part.begin + part.count));
      if (has_feedback) {
        const std::span<const float> v = memories[p]->Compensate(0, part_values, part_values);
        ASSERT_EQ(v.data(), part_values.data());
      }
      std::vector<uint8_t> code;
      codec->Encode(part_values.data(), SegmentOf(part, kColumnSizes[p]), {}, {}, &code);
      expected_chunks[part.chunk].insert(expected_chunks[part.chunk].end(), code.begin(),
                                         code.end());
      row.AppendCode(code);
      std::vector<float> decoded_part(part.count);
      ASSERT_TRUE(
          codec->DecodeSingleCode(code, SegmentOf(part, kColumnSizes[p]), decoded_part.data())
              .ok());
      std::copy(decoded_part.begin(), decoded_part.end(),
                decoded.begin() + static_cast<std::ptrdiff_t>(part.begin));
      if (!has_feedback) continue;
      memories[p]->Update(0, part_values, decoded_part);
      SavedState state;
      memories[p]->AddState(&state);
      const auto begin = device_residual.begin() + static_cast<std::ptrdiff_t>(part.begin);
      ExpectSameBits({begin, begin + static_cast<std::ptrdiff_t>(part.count)},
                     {state.arrays[0].values.begin(), state.arrays[0].values.end()});
    }
    ASSERT_EQ(device_chunks.size(), expected_chunks.size());
    for (size_t c = 0; c < device_chunks.size(); ++c)
      EXPECT_EQ(device_chunks[c], expected_chunks[c]) << "chunk " << c;
    ExpectSameBits(coder.Decode(row), decoded);
  }
  EXPECT_EQ(coder.num_bad(), 0u);
}

TEST_F(DeviceCodes, OneBitMatchesCpu) {
  const size_t n = ArenaSize(MakeParts(kPartSizes));
  std::vector<float> odd_values = NormalValues(n, 1, 2), zeros(n);
  OverwriteWithOddValues(&odd_values);
  ExpectOneBitMatchesCpu(
      {NormalValues(n, 0.01f, 1), odd_values, zeros, std::vector<float>(n, -0.5f)}, false);
}

TEST_F(DeviceCodes, OneBitKeepsResidualLikeCpu) {
  const size_t n = ArenaSize(MakeParts(kPartSizes));
  std::vector<float> odd_values = NormalValues(n, 1, 2);
  OverwriteWithOddValues(&odd_values);
  ExpectOneBitMatchesCpu(
      {NormalValues(n, 0.01f, 1), NormalValues(n, 0.01f, 2), odd_values, NormalValues(n, 0.01f, 3)},
      true);
}

TEST_F(DeviceCodes, OneBitReportsNonFiniteValues) {
  const auto parts = MakeParts({5000, 100});
  std::vector<float> g = NormalValues(ArenaSize(parts), 1, 1);
  OneBitCoder coder(parts, {5000, 10});
  coder.Encode(g, nullptr);
  EXPECT_EQ(coder.num_bad(), 0u);
  g[4999] = std::nanf("");
  g[parts[1].begin + 7] = -INFINITY;
  coder.Encode(g, nullptr);
  EXPECT_EQ(coder.num_bad(), 2u);
}

// The device must count exactly those codes as invalid that Codec::Decode refuses.
TEST_F(DeviceCodes, InvalidOneBitCodesAreCounted) {
  const auto parts = MakeParts({1003});
  const codec::Segment segment = SegmentOf(parts[0], 10);
  const auto codec = MakeCheckedCodec("onebit", {});
  std::vector<uint8_t> code;
  codec->Encode(NormalValues(1003, 1, 1).data(), segment, {}, {}, &code);
  const auto expect_validity = [&](const std::vector<uint8_t>& bytes, bool is_valid) {
    std::vector<float> mean(1003);
    EXPECT_EQ(codec->Decode(bytes, segment, 1, 0, 0, 1003, mean.data()).ok(), is_valid);
    OneBitCoder coder(parts, {10});
    CodeRow row;
    row.AppendCode(bytes);
    coder.Decode(row);
    EXPECT_EQ(coder.num_bad() == 0, is_valid);
  };
  expect_validity(code, true);
  for (const size_t size : {size_t{0}, size_t{1}, code.size() - 1, code.size() + 1}) {
    auto changed_code = code;
    changed_code.resize(size);
    expect_validity(changed_code, false);
  }
  auto code_with_unused_bit = code;
  code_with_unused_bit.back() |= 0x80;
  expect_validity(code_with_unused_bit, false);
  for (const float mean : {1.f, -0.f, -INFINITY, std::nanf("")}) {
    auto changed_code = code;
    std::memcpy(changed_code.data() + 17 * 8, &mean, 4);
    expect_validity(changed_code, false);
  }
  for (const float mean : {-1.f, -0.f, INFINITY, std::nanf("")}) {
    auto changed_code = code;
    std::memcpy(changed_code.data() + 100 * 8 + 4, &mean, 4);
    expect_validity(changed_code, false);
  }
}

struct QsgdCase {
  const char* name;
  Options::Qsgd options;
};

// Encodes and decodes with QSGD on the device. A bucket is a run of elements with a common norm.
class QsgdCoder {
 public:
  QsgdCoder(const std::vector<Part>& parts, const Options::Qsgd& options)
      : parts_(parts),
        options_(options),
        rule_(codec::QsgdLevels(options).rule()),
        tiling_(CutIntoTiles(parts)),
        bucket_sizes_(BucketSizesOf(parts, options)),
        code_ranges_(LayOutCodes(
            [&](size_t p) { return QsgdMaxSize(rule_, parts[p].count, bucket_sizes_[p]); },
            &tiling_)),
        device_tiling_(tiling_),
        device_ranges_(code_ranges_),
        grouped_parts_(GroupParts(tiling_, bucket_sizes_, &num_buckets_)),
        partial_sums_(2 * tiling_.tiles.size()),
        done_counters_(std::vector<uint32_t>(tiling_.tiles.size())),
        chunk_counters_(std::vector<uint32_t>(tiling_.chunks.size())),
        norms_(num_buckets_),
        widths_(num_buckets_),
        level_bit_offsets_(num_buckets_),
        level_byte_offsets_(parts.size()),
        num_bad_(std::vector<uint32_t>(1)) {}

  CodesOfChunks Encode(const std::vector<float>& g, const NoiseKey& key) {
    DeviceArray<float> arena(g);
    DeviceArray<uint8_t> out(tiling_.out_bytes);
    DeviceArray<uint64_t> sizes(tiling_.chunks.size());
    EXPECT_EQ(QsgdOnDevice(
                  nullptr, arena.data(), device_tiling_.Get(),
                  {rule_, options_.bucket, grouped_parts_.data(), device_ranges_.data(), key},
                  {partial_sums_.data(), done_counters_.data(), norms_.data(), widths_.data(),
                   level_bit_offsets_.data(), level_byte_offsets_.data(), chunk_counters_.data()},
                  out.data(), tiling_.out_bytes, sizes.data(), num_bad_.data()),
              0);
    if (rule_.bits == 0) return SplitIntoChunks(out.Read(), tiling_, sizes.Read());
    std::vector<uint64_t> fixed_sizes(tiling_.chunks.size());
    for (size_t p = 0; p < parts_.size(); ++p)
      fixed_sizes[tiling_.parts[p].part.chunk] += code_ranges_[p].size;
    return SplitIntoChunks(out.Read(), tiling_, fixed_sizes);
  }
  std::vector<float> Decode(const CodeRow& row) {
    DeviceArray<uint8_t> codes(row.bytes);
    DeviceArray<CodeRange> ranges(row.ranges);
    DeviceArray<float> arena(std::vector<float>(ArenaSize(parts_)));
    EXPECT_EQ(
        ReadQsgdOnDevice(nullptr, device_tiling_.Get(), codes.data(), rule_, grouped_parts_.data(),
                         ranges.data(), level_bit_offsets_.data(), arena.data(), num_bad_.data()),
        0);
    return arena.Read();
  }
  // 0 until a bucket with values that are not finite is encoded or an invalid code is decoded.
  uint32_t num_bad() const { return num_bad_.Read()[0]; }

 private:
  static std::vector<uint64_t> BucketSizesOf(const std::vector<Part>& parts,
                                             const Options::Qsgd& options) {
    std::vector<uint64_t> sizes;
    for (const Part& part : parts)
      sizes.push_back(options.bucket == 0 ? part.count : options.bucket);
    return sizes;
  }

  std::vector<Part> parts_;
  Options::Qsgd options_;
  QsgdRule rule_;
  Tiling tiling_;
  std::vector<uint64_t> bucket_sizes_;
  std::vector<CodeRange> code_ranges_;
  uint64_t num_buckets_ = 0;
  TilingOnDevice device_tiling_;
  DeviceArray<CodeRange> device_ranges_;
  DeviceArray<GroupedPart> grouped_parts_;
  DeviceArray<QsgdSums> partial_sums_;
  DeviceArray<uint32_t> done_counters_, chunk_counters_;
  DeviceArray<float> norms_;
  DeviceArray<uint8_t> widths_;
  DeviceArray<uint64_t> level_bit_offsets_, level_byte_offsets_;
  DeviceArray<uint32_t> num_bad_;
};

class QsgdCodes : public DeviceCodes, public testing::WithParamInterface<QsgdCase> {};

// Expects that the device encodes each part to the same bytes as the codec on the CPU, and decodes
// them to the same values.
void ExpectQsgdMatchesCpu(const std::vector<Part>& parts, const Options::Qsgd& qsgd,
                          const std::vector<float>& g) {
  Options options;
  options.qsgd = qsgd;
  const auto codec = MakeCheckedCodec("qsgd", options);
  const NoiseKey key{77, NoiseStream::kCodes, 3, 1234567, 0};
  QsgdCoder coder(parts, qsgd);
  CodesOfChunks expected_chunks;
  CodeRow row;
  std::vector<float> decoded(ArenaSize(parts));
  for (const Part& part : parts) {
    if (part.chunk == expected_chunks.size()) expected_chunks.emplace_back();
    std::vector<uint8_t> code;
    codec->Encode(g.data() + part.begin, SegmentOf(part), {}, key, &code);
    expected_chunks[part.chunk].insert(expected_chunks[part.chunk].end(), code.begin(), code.end());
    row.AppendCode(code);
    ASSERT_TRUE(codec->DecodeSingleCode(code, SegmentOf(part), decoded.data() + part.begin).ok());
  }
  for (int run = 0; run < 2; ++run) {
    const CodesOfChunks device_chunks = coder.Encode(g, key);
    ASSERT_EQ(device_chunks.size(), expected_chunks.size());
    for (size_t c = 0; c < device_chunks.size(); ++c)
      EXPECT_EQ(device_chunks[c], expected_chunks[c]) << "chunk " << c;
  }
  ExpectSameBits(coder.Decode(row), decoded);
  EXPECT_EQ(coder.num_bad(), 0u);
}

TEST_P(QsgdCodes, MatchCpu) {
  const auto parts = MakeParts({1, 7, 512, 600, 4096, 2500, 100, 9001});
  std::vector<float> g = NormalValues(ArenaSize(parts), 0.01f, 4);
  std::fill_n(g.begin() + static_cast<std::ptrdiff_t>(parts[5].begin), 1500, 0.0f);
  std::fill_n(g.begin() + static_cast<std::ptrdiff_t>(parts[6].begin), parts[6].count, 0.0f);
  ExpectQsgdMatchesCpu(parts, GetParam().options, g);
}

TEST_P(QsgdCodes, OddValuesMatchCpu) {
  const auto parts = MakeParts({5, 700, 2500});
  std::vector<float> g = NormalValues(ArenaSize(parts), 1, 5);
  OverwriteWithOddValues(&g);
  for (size_t i = 0; i < 2000; ++i) g[parts[2].begin + i] *= i % 3 == 0 ? 1e-41f : 0;
  ExpectQsgdMatchesCpu(parts, GetParam().options, g);
}

using Norm = Options::Qsgd::Norm;
using Layout = Options::Qsgd::Layout;
using Levels = Options::Qsgd::Levels;

INSTANTIATE_TEST_SUITE_P(
    Each, QsgdCodes,
    testing::Values(
        QsgdCase{"Default", {}}, QsgdCase{"TwoBits", {.bits = 2, .bucket = 64}},
        QsgdCase{"EightBitsIntervals", {.bits = 8, .layout = Layout::kIntervals}},
        QsgdCase{"FiveBitsOddBuckets", {.bits = 5, .bucket = 300, .norm = Norm::kTwo}},
        QsgdCase{"SixteenBitsTensor", {.bits = 16, .bucket = 0, .norm = Norm::kTwo}},
        QsgdCase{"SmallBuckets", {.bits = 3, .bucket = 5}},
        QsgdCase{"LargeBuckets", {.bits = 7, .bucket = 5000, .layout = Layout::kIntervals}},
        QsgdCase{"OneLevel", {.norm = Norm::kTwo, .levels = Levels::kGiven, .s = 1}},
        QsgdCase{"GivenLevels", {.bucket = 100, .levels = Levels::kGiven, .s = 100.5}},
        QsgdCase{"SqrtN", {.bucket = 512, .norm = Norm::kTwo, .levels = Levels::kSqrtN}},
        QsgdCase{"SqrtNOfTensor", {.bucket = 0, .norm = Norm::kTwo, .levels = Levels::kSqrtN}},
        QsgdCase{"SqrtMPN",
                 {.bucket = 7,
                  .norm = Norm::kTwo,
                  .levels = Levels::kSqrtMPN,
                  .samples = 100,
                  .local_steps = 5000}}),
    [](const auto& info) { return info.param.name; });

TEST_F(DeviceCodes, QsgdReportsNonFiniteValues) {
  const auto parts = MakeParts({5000, 100});
  std::vector<float> g = NormalValues(ArenaSize(parts), 1, 1);
  QsgdCoder coder(parts, {});
  coder.Encode(g, {});
  EXPECT_EQ(coder.num_bad(), 0u);
  g[4999] = std::nanf("");
  g[parts[1].begin + 7] = -INFINITY;
  coder.Encode(g, {});
  EXPECT_EQ(coder.num_bad(), 2u);
}

// Decodes the code on the CPU and on the device. Both must refuse the code, or both must decode it
// to the same values. Returns whether both refuse it.
bool IsRefused(const std::vector<uint8_t>& code, const Options::Qsgd& qsgd, uint64_t count) {
  const std::vector<Part> parts = {{0, count, 0, 1, 0}};
  Options options;
  options.qsgd = qsgd;
  std::vector<float> mean(count);
  const bool is_valid = MakeCheckedCodec("qsgd", options)
                            ->Decode(code, SegmentOf(parts[0]), 1, 0, 0, count, mean.data())
                            .ok();
  QsgdCoder coder(parts, qsgd);
  CodeRow row;
  row.AppendCode(code);
  const std::vector<float> decoded = coder.Decode(row);
  EXPECT_EQ(coder.num_bad() == 0, is_valid);
  if (is_valid) ExpectSameBits(decoded, mean);
  return !is_valid;
}

std::vector<uint8_t> QsgdCodeOf(const Options::Qsgd& qsgd, uint64_t count, uint64_t seed) {
  Options options;
  options.qsgd = qsgd;
  std::vector<uint8_t> code;
  MakeCheckedCodec("qsgd", options)
      ->Encode(NormalValues(count, 1, seed).data(), {1, 0, count}, {}, {}, &code);
  return code;
}

// Makes 60 random changes of a code. More than 10 must be refused.
void ExpectRefusals(const Options::Qsgd& qsgd, uint64_t count, uint64_t seed) {
  const std::vector<uint8_t> code = QsgdCodeOf(qsgd, count, seed);
  std::mt19937_64 random(seed);
  uint32_t num_refused = 0;
  for (int i = 0; i < 60; ++i) {
    auto changed_code = code;
    if (i % 10 == 0) {
      changed_code.resize(random() % (code.size() + 2));
    } else {
      changed_code[i % 2 == 0 ? random() % code.size()
                              : random() % std::min<size_t>(code.size(), 200)] ^=
          static_cast<uint8_t>(1 + random() % 255);
    }
    num_refused += IsRefused(changed_code, qsgd, count) ? 1 : 0;
  }
  EXPECT_GT(num_refused, 10u);
}

TEST_F(DeviceCodes, InvalidQsgdCodesAreCounted) {
  ExpectRefusals({}, 5003, 1);
  ExpectRefusals({.bits = 3, .bucket = 7}, 401, 2);
  ExpectRefusals({.bucket = 16, .norm = Norm::kTwo, .levels = Levels::kSqrtN}, 1401, 3);
  ExpectRefusals({.bucket = 0, .levels = Levels::kGiven, .s = 9.5}, 301, 4);
}

// The code has 150 buckets: first 150 norms of 4 bytes and 150 widths of one byte, then three
// numbers of 8 bytes: the positions, in bits, at which buckets 63, 127 and 149 end.
TEST_F(DeviceCodes, QsgdBucketsWithWrongEndsAreRefused) {
  const Options::Qsgd qsgd{.bucket = 4, .levels = Levels::kSqrtMN, .samples = 20};
  const std::vector<uint8_t> code = QsgdCodeOf(qsgd, 600, 5);
  EXPECT_FALSE(IsRefused(code, qsgd, 600));
  for (size_t byte = 150 * 5; byte < 150 * 5 + 3 * 8; ++byte) {
    for (const unsigned change : {1u, 0x80u}) {
      auto changed_code = code;
      changed_code[byte] ^= static_cast<uint8_t>(change);
      EXPECT_TRUE(IsRefused(changed_code, qsgd, 600)) << "byte " << byte;
    }
  }
  // Sets the 4 elements of bucket 64 to zero. Then moves the start of bucket 64 by 4 bits, and
  // makes its elements one bit narrower, so that all later buckets stay where they are.
  auto changed_code = code;
  uint64_t end = 0;
  std::memcpy(&end, changed_code.data() + 150 * 5, sizeof end);
  uint8_t& width = changed_code[150 * 4 + 64];
  for (uint64_t bit = end; bit < end + 4 * uint64_t{width}; ++bit)
    changed_code[150 * 5 + 3 * 8 + bit / 8] &= static_cast<uint8_t>(~(1u << bit % 8));
  EXPECT_FALSE(IsRefused(changed_code, qsgd, 600));
  end += 4;
  std::memcpy(changed_code.data() + 150 * 5, &end, sizeof end);
  --width;
  EXPECT_TRUE(IsRefused(changed_code, qsgd, 600));
}

// QuickLevel decides an element's level from a 16-bit random number, or reports that it cannot
// decide. If it decides, the exact rule must give the same level for the smallest and the largest
// value of the next 16 random bits.
TEST(QuickLevels, AreNeverWrongWhenCertain) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<float> exponent(-110, 110), fraction(-1, 1);
  const double levels[] = {1, 3, 7, 15, 100.5, 255, 32767, kQsgdMostLevels};
  uint64_t num_uncertain = 0, num_draws = 0;  // both only of buckets of at most 15 levels
  for (int i = 0; i < 40000; ++i) {
    const bool by_intervals = i % 2 == 1;
    const QsgdBucket bucket{std::exp2(exponent(random)), 0, levels[i / 2 % 8]};
    const float element = i % 11 == 0 ? bucket.norm : bucket.norm * fraction(random);
    const double position = by_intervals ? (double{element / bucket.norm} + 1) * (bucket.s / 2)
                                         : double{std::abs(element) / bucket.norm} * bucket.s;
    const auto boundary_draw = static_cast<int64_t>((position - std::floor(position)) * 65536);
    for (int64_t d = boundary_draw - 3; d <= boundary_draw + 3; ++d) {
      if (d < 0 || d > 65535) continue;
      const auto draw = static_cast<uint32_t>(d);
      const auto exact_level = [&](uint32_t finer_draw) {
        return QsgdLevel(by_intervals, element, bucket, draw, [finer_draw] { return finer_draw; });
      };
      uint32_t quick_level = 0;
      num_draws += bucket.s <= 15;
      if (!QuickLevel(QsgdQuickOf(by_intervals, bucket), by_intervals ? element : std::abs(element),
                      draw, &quick_level)) {
        num_uncertain += bucket.s <= 15;
        continue;
      }
      ASSERT_EQ(quick_level, exact_level(0)) << element << " of " << bucket.norm << ", draw " << d;
      ASSERT_EQ(quick_level, exact_level(65535))
          << element << " of " << bucket.norm << ", draw " << d;
    }
  }
  EXPECT_LT(num_uncertain * 2, num_draws)
      << "with few levels, it decides most of the seven draws nearest to the boundary";
}

}  // namespace
}  // namespace tern::kernels
