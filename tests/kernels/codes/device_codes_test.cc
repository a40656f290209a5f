// Tests that a GPU makes the same bytes as the codecs onebit and qsgd on the CPU, and decodes them
// to the same values.
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

namespace tern::kernels {
namespace {

using codec::Options;

// Encodes and decodes with 1-bit SGD on the device.
class OneBitCoder {
 public:
  // columns[p]: how many elements of part p share a pair of means (a column).
  OneBitCoder(const std::vector<Part>& parts, const std::vector<uint64_t>& columns)
      : parts_(parts),
        columns_(columns),
        cut_(CutIntoTiles(parts)),
        ranges_(
            LayOutCodes([&](size_t p) { return OneBitSize(parts[p].count, columns[p]); }, &cut_)),
        tiling_(cut_),
        device_ranges_(ranges_),
        group_(GroupParts(cut_, columns, &groups_)),
        partial_(2 * cut_.tiles.size()),
        done_(std::vector<uint32_t>(cut_.tiles.size())),
        means_(2 * groups_),
        bad_(std::vector<uint32_t>(1)) {}

  // Encodes the chunks. `residual` is the error feedback of all elements; null: no error feedback.
  Rows Code(const std::vector<float>& g, DeviceArray<float>* residual) {
    DeviceArray<float> arena(g);
    DeviceArray<uint8_t> out(cut_.out_bytes);
    EXPECT_EQ(
        OneBitOnDevice(nullptr, arena.data(), residual == nullptr ? nullptr : residual->data(),
                       tiling_.Get(), group_.data(), device_ranges_.data(),
                       {partial_.data(), done_.data(), means_.data()}, out.data(), bad_.data()),
        0);
    std::vector<uint64_t> sizes(cut_.chunks.size());
    for (size_t p = 0; p < parts_.size(); ++p) sizes[cut_.parts[p].part.chunk] += ranges_[p].size;
    return ChunksOf(out.Read(), cut_, sizes);
  }
  std::vector<float> Read(const CodeRow& row) {
    DeviceArray<uint8_t> codes(row.bytes);
    DeviceArray<CodeRange> ranges(row.ranges);
    DeviceArray<float> arena(std::vector<float>(parts_.back().begin + parts_.back().count));
    EXPECT_EQ(ReadOneBitOnDevice(nullptr, tiling_.Get(), codes.data(), group_.data(), ranges.data(),
                                 arena.data(), bad_.data()),
              0);
    return arena.Read();
  }
  uint32_t bad() const { return bad_.Read()[0]; }

 private:
  std::vector<Part> parts_;
  std::vector<uint64_t> columns_;
  Tiling cut_;
  std::vector<CodeRange> ranges_;
  uint64_t groups_ = 0;
  OnDevice tiling_;
  DeviceArray<CodeRange> device_ranges_;
  DeviceArray<GroupedPart> group_;
  DeviceArray<OneBitSums> partial_;
  DeviceArray<uint32_t> done_;
  DeviceArray<float> means_;
  DeviceArray<uint32_t> bad_;
};

// The sizes of the parts and of their columns: one element, a few, as many as a warp or a block has
// threads, and several blocks.
const std::vector<uint64_t> kCounts = {1,    7,    4096, 205,   415,   4097,
                                       9000, 8191, 3000, 20000, 17000, 24576};
const std::vector<uint64_t> kColumns = {1,    3,    1,    9,        16,   512,
                                        4097, 4096, 1000, 1u << 31, 5000, 8192};

void ExpectOneBit(const std::vector<std::vector<float>>& rounds, bool feedback) {
  const auto parts = PartsOf(kCounts);
  const auto codec = Made("onebit", {});
  OneBitCoder coder(parts, kColumns);
  DeviceArray<float> residual(std::vector<float>(EndOf(parts)));
  std::vector<std::unique_ptr<codec::Memory>> memories;
  for (const Part& part : parts) memories.push_back(codec->NewMemory(part.count));
  for (const std::vector<float>& g : rounds) {
    const Rows coded = coder.Code(g, feedback ? &residual : nullptr);
    std::vector<float> errors = residual.Read();
    Rows expected;
    CodeRow row;
    std::vector<float> read(EndOf(parts));
    for (size_t p = 0; p < parts.size(); ++p) {
      const Part& part = parts[p];
      if (part.chunk == expected.size()) expected.emplace_back();
      std::vector<float> v(g.begin() + static_cast<std::ptrdiff_t>(part.begin),
                           g.begin() + static_cast<std::ptrdiff_t>(part.begin + part.count));
      if (feedback) memories[p]->Compensate(0, v, v);
      std::vector<uint8_t> code;
      codec->Encode(v.data(), SegmentOf(part, kColumns[p]), {}, {}, &code);
      expected[part.chunk].insert(expected[part.chunk].end(), code.begin(), code.end());
      row.Add(code);
      std::vector<float> sent(part.count);
      ASSERT_TRUE(codec->DecodeSingleCode(code, SegmentOf(part, kColumns[p]), sent.data()).ok());
      std::copy(sent.begin(), sent.end(), read.begin() + static_cast<std::ptrdiff_t>(part.begin));
      if (!feedback) continue;
      memories[p]->Update(0, v, sent);
      SavedState state;
      memories[p]->AddState(&state);
      const auto begin = errors.begin() + static_cast<std::ptrdiff_t>(part.begin);
      ExpectSameBits({begin, begin + static_cast<std::ptrdiff_t>(part.count)},
                     {state.arrays[0].values.begin(), state.arrays[0].values.end()});
    }
    ASSERT_EQ(coded.size(), expected.size());
    for (size_t c = 0; c < coded.size(); ++c) EXPECT_EQ(coded[c], expected[c]) << "chunk " << c;
    ExpectSameBits(coder.Read(row), read);
  }
  EXPECT_EQ(coder.bad(), 0u);
}

TEST_F(DeviceCodes, OneBitMatchesCpu) {
  const size_t n = EndOf(PartsOf(kCounts));
  std::vector<float> odd = Normal(n, 1, 2), zeros(n);
  AddOddValues(&odd);
  ExpectOneBit({Normal(n, 0.01f, 1), odd, zeros, std::vector<float>(n, -0.5f)}, false);
}

TEST_F(DeviceCodes, OneBitKeepsResidualLikeCpu) {
  const size_t n = EndOf(PartsOf(kCounts));
  std::vector<float> odd = Normal(n, 1, 2);
  AddOddValues(&odd);
  ExpectOneBit({Normal(n, 0.01f, 1), Normal(n, 0.01f, 2), odd, Normal(n, 0.01f, 3)}, true);
}

TEST_F(DeviceCodes, OneBitReportsNonFiniteValues) {
  const auto parts = PartsOf({5000, 100});
  std::vector<float> g = Normal(EndOf(parts), 1, 1);
  OneBitCoder coder(parts, {5000, 10});
  coder.Code(g, nullptr);
  EXPECT_EQ(coder.bad(), 0u);
  g[4999] = std::nanf("");
  g[parts[1].begin + 7] = -INFINITY;
  coder.Code(g, nullptr);
  EXPECT_EQ(coder.bad(), 2u);
}

// The device must count exactly those codes as invalid that Codec::Decode refuses.
TEST_F(DeviceCodes, InvalidOneBitCodesAreCounted) {
  const auto parts = PartsOf({1003});
  const codec::Segment segment = SegmentOf(parts[0], 10);
  const auto codec = Made("onebit", {});
  std::vector<uint8_t> code;
  codec->Encode(Normal(1003, 1, 1).data(), segment, {}, {}, &code);
  const auto expect_valid = [&](const std::vector<uint8_t>& bytes, bool is_valid) {
    std::vector<float> mean(1003);
    EXPECT_EQ(codec->Decode(bytes, segment, 1, 0, 0, 1003, mean.data()).ok(), is_valid);
    OneBitCoder coder(parts, {10});
    CodeRow row;
    row.Add(bytes);
    coder.Read(row);
    EXPECT_EQ(coder.bad() == 0, is_valid);
  };
  expect_valid(code, true);
  for (const size_t size : {size_t{0}, size_t{1}, code.size() - 1, code.size() + 1}) {
    auto other = code;
    other.resize(size);
    expect_valid(other, false);
  }
  auto bits = code;
  bits.back() |= 0x80;
  expect_valid(bits, false);
  for (const float mean : {1.f, -0.f, -INFINITY, std::nanf("")}) {
    auto other = code;
    std::memcpy(other.data() + 17 * 8, &mean, 4);
    expect_valid(other, false);
  }
  for (const float mean : {-1.f, -0.f, INFINITY, std::nanf("")}) {
    auto other = code;
    std::memcpy(other.data() + 100 * 8 + 4, &mean, 4);
    expect_valid(other, false);
  }
}

struct QsgdCase {
  const char* name;
  Options::Qsgd options;
};

// Encodes and decodes with QSGD on the device.
class QsgdCoder {
 public:
  QsgdCoder(const std::vector<Part>& parts, const Options::Qsgd& options)
      : parts_(parts),
        options_(options),
        rule_(codec::QsgdLevels(options).rule()),
        cut_(CutIntoTiles(parts)),
        sizes_(SizesOf(parts, options)),
        ranges_(LayOutCodes([&](size_t p) { return QsgdMaxSize(rule_, parts[p].count, sizes_[p]); },
                            &cut_)),
        tiling_(cut_),
        device_ranges_(ranges_),
        group_(GroupParts(cut_, sizes_, &buckets_)),
        partial_(2 * cut_.tiles.size()),
        done_(std::vector<uint32_t>(cut_.tiles.size())),
        chunk_done_(std::vector<uint32_t>(cut_.chunks.size())),
        norms_(buckets_),
        widths_(buckets_),
        bits_(buckets_),
        levels_(parts.size()),
        bad_(std::vector<uint32_t>(1)) {}

  Rows Code(const std::vector<float>& g, const NoiseKey& key) {
    DeviceArray<float> arena(g);
    DeviceArray<uint8_t> out(cut_.out_bytes);
    DeviceArray<uint64_t> sizes(cut_.chunks.size());
    EXPECT_EQ(QsgdOnDevice(nullptr, arena.data(), tiling_.Get(),
                           {rule_, options_.bucket, group_.data(), device_ranges_.data(), key},
                           {partial_.data(), done_.data(), norms_.data(), widths_.data(),
                            bits_.data(), levels_.data(), chunk_done_.data()},
                           out.data(), cut_.out_bytes, sizes.data(), bad_.data()),
              0);
    if (rule_.bits == 0) return ChunksOf(out.Read(), cut_, sizes.Read());
    std::vector<uint64_t> fixed_sizes(cut_.chunks.size());
    for (size_t p = 0; p < parts_.size(); ++p)
      fixed_sizes[cut_.parts[p].part.chunk] += ranges_[p].size;
    return ChunksOf(out.Read(), cut_, fixed_sizes);
  }
  std::vector<float> Read(const CodeRow& row) {
    DeviceArray<uint8_t> codes(row.bytes);
    DeviceArray<CodeRange> ranges(row.ranges);
    DeviceArray<float> arena(std::vector<float>(EndOf(parts_)));
    EXPECT_EQ(ReadQsgdOnDevice(nullptr, tiling_.Get(), codes.data(), rule_, group_.data(),
                               ranges.data(), bits_.data(), arena.data(), bad_.data()),
              0);
    return arena.Read();
  }
  uint32_t bad() const { return bad_.Read()[0]; }

 private:
  static std::vector<uint64_t> SizesOf(const std::vector<Part>& parts,
                                       const Options::Qsgd& options) {
    std::vector<uint64_t> sizes;
    for (const Part& part : parts)
      sizes.push_back(options.bucket == 0 ? part.count : options.bucket);
    return sizes;
  }

  std::vector<Part> parts_;
  Options::Qsgd options_;
  QsgdRule rule_;
  Tiling cut_;
  std::vector<uint64_t> sizes_;
  std::vector<CodeRange> ranges_;
  uint64_t buckets_ = 0;
  OnDevice tiling_;
  DeviceArray<CodeRange> device_ranges_;
  DeviceArray<GroupedPart> group_;
  DeviceArray<QsgdSums> partial_;
  DeviceArray<uint32_t> done_, chunk_done_;
  DeviceArray<float> norms_;
  DeviceArray<uint8_t> widths_;
  DeviceArray<uint64_t> bits_, levels_;
  DeviceArray<uint32_t> bad_;
};

class QsgdCodes : public DeviceCodes, public testing::WithParamInterface<QsgdCase> {};

// Expects that the device's code of each part, and the values that it decodes, equal the codec's.
void ExpectQsgd(const std::vector<Part>& parts, const Options::Qsgd& qsgd,
                const std::vector<float>& g) {
  Options options;
  options.qsgd = qsgd;
  const auto codec = Made("qsgd", options);
  const NoiseKey key{77, NoiseStream::kCodes, 3, 1234567, 0};
  QsgdCoder coder(parts, qsgd);
  Rows expected;
  CodeRow row;
  std::vector<float> read(EndOf(parts));
  for (const Part& part : parts) {
    if (part.chunk == expected.size()) expected.emplace_back();
    std::vector<uint8_t> code;
    codec->Encode(g.data() + part.begin, SegmentOf(part), {}, key, &code);
    expected[part.chunk].insert(expected[part.chunk].end(), code.begin(), code.end());
    row.Add(code);
    ASSERT_TRUE(codec->DecodeSingleCode(code, SegmentOf(part), read.data() + part.begin).ok());
  }
  for (int again = 0; again < 2; ++again) {
    const Rows coded = coder.Code(g, key);
    ASSERT_EQ(coded.size(), expected.size());
    for (size_t c = 0; c < coded.size(); ++c) EXPECT_EQ(coded[c], expected[c]) << "chunk " << c;
  }
  ExpectSameBits(coder.Read(row), read);
  EXPECT_EQ(coder.bad(), 0u);
}

TEST_P(QsgdCodes, MatchCpu) {
  const auto parts = PartsOf({1, 7, 512, 600, 4096, 2500, 100, 9001});
  std::vector<float> g = Normal(EndOf(parts), 0.01f, 4);
  std::fill_n(g.begin() + static_cast<std::ptrdiff_t>(parts[5].begin), 1500, 0.0f);
  std::fill_n(g.begin() + static_cast<std::ptrdiff_t>(parts[6].begin), parts[6].count, 0.0f);
  ExpectQsgd(parts, GetParam().options, g);
}

TEST_P(QsgdCodes, OddValuesMatchCpu) {
  const auto parts = PartsOf({5, 700, 2500});
  std::vector<float> g = Normal(EndOf(parts), 1, 5);
  AddOddValues(&g);
  for (size_t i = 0; i < 2000; ++i) g[parts[2].begin + i] *= i % 3 == 0 ? 1e-41f : 0;
  ExpectQsgd(parts, GetParam().options, g);
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
  const auto parts = PartsOf({5000, 100});
  std::vector<float> g = Normal(EndOf(parts), 1, 1);
  QsgdCoder coder(parts, {});
  coder.Code(g, {});
  EXPECT_EQ(coder.bad(), 0u);
  g[4999] = std::nanf("");
  g[parts[1].begin + 7] = -INFINITY;
  coder.Code(g, {});
  EXPECT_EQ(coder.bad(), 2u);
}

// Decodes the code on the CPU and on the device, which must both refuse it or give the same values.
// Returns whether they refuse it.
bool IsRefused(const std::vector<uint8_t>& code, const Options::Qsgd& qsgd, uint64_t count) {
  const std::vector<Part> parts = {{0, count, 0, 1, 0}};
  Options options;
  options.qsgd = qsgd;
  std::vector<float> mean(count);
  const bool good =
      Made("qsgd", options)->Decode(code, SegmentOf(parts[0]), 1, 0, 0, count, mean.data()).ok();
  QsgdCoder coder(parts, qsgd);
  CodeRow row;
  row.Add(code);
  const std::vector<float> read = coder.Read(row);
  EXPECT_EQ(coder.bad() == 0, good);
  if (good) ExpectSameBits(read, mean);
  return !good;
}

std::vector<uint8_t> QsgdCodeOf(const Options::Qsgd& qsgd, uint64_t count, uint64_t seed) {
  Options options;
  options.qsgd = qsgd;
  std::vector<uint8_t> code;
  Made("qsgd", options)->Encode(Normal(count, 1, seed).data(), {1, 0, count}, {}, {}, &code);
  return code;
}

// Makes 60 random changes of a code. More than 10 must be refused.
void ExpectRefusals(const Options::Qsgd& qsgd, uint64_t count, uint64_t seed) {
  const std::vector<uint8_t> code = QsgdCodeOf(qsgd, count, seed);
  std::mt19937_64 random(seed);
  uint32_t refused = 0;
  for (int i = 0; i < 60; ++i) {
    auto other = code;
    if (i % 10 == 0) {
      other.resize(random() % (code.size() + 2));
    } else {
      other[i % 2 == 0 ? random() % code.size() : random() % std::min<size_t>(code.size(), 200)] ^=
          static_cast<uint8_t>(1 + random() % 255);
    }
    refused += IsRefused(other, qsgd, count) ? 1 : 0;
  }
  EXPECT_GT(refused, 10u);
}

TEST_F(DeviceCodes, InvalidQsgdCodesAreCounted) {
  ExpectRefusals({}, 5003, 1);
  ExpectRefusals({.bits = 3, .bucket = 7}, 401, 2);
  ExpectRefusals({.bucket = 16, .norm = Norm::kTwo, .levels = Levels::kSqrtN}, 1401, 3);
  ExpectRefusals({.bucket = 0, .levels = Levels::kGiven, .s = 9.5}, 301, 4);
}

// The code has 150 buckets: first 150 norms of 4 bytes and 150 widths of one byte, then three end
// positions in bits, of 8 bytes each, because the end of every 64th bucket is stored.
TEST_F(DeviceCodes, QsgdBucketsWithWrongEndsAreRefused) {
  const Options::Qsgd qsgd{.bucket = 4, .levels = Levels::kSqrtMN, .samples = 20};
  const std::vector<uint8_t> code = QsgdCodeOf(qsgd, 600, 5);
  EXPECT_FALSE(IsRefused(code, qsgd, 600));
  for (size_t byte = 150 * 5; byte < 150 * 5 + 3 * 8; ++byte) {
    for (const unsigned change : {1u, 0x80u}) {
      auto other = code;
      other[byte] ^= static_cast<uint8_t>(change);
      EXPECT_TRUE(IsRefused(other, qsgd, 600)) << "byte " << byte;
    }
  }
  // Sets the 4 elements of bucket 64 to zero. Then moves the start of bucket 64 by 4 bits, and
  // makes its elements one bit narrower, so that all later buckets stay where they are.
  auto other = code;
  uint64_t end = 0;
  std::memcpy(&end, other.data() + 150 * 5, sizeof end);
  uint8_t& width = other[150 * 4 + 64];
  for (uint64_t bit = end; bit < end + 4 * uint64_t{width}; ++bit)
    other[150 * 5 + 3 * 8 + bit / 8] &= static_cast<uint8_t>(~(1u << bit % 8));
  EXPECT_FALSE(IsRefused(other, qsgd, 600));
  end += 4;
  std::memcpy(other.data() + 150 * 5, &end, sizeof end);
  --width;
  EXPECT_TRUE(IsRefused(other, qsgd, 600));
}

// QuickLevel decides an element's level from a 16-bit random number, or reports that it cannot
// decide. If it decides, the exact rule must give the same level for the smallest and the largest
// value of the next 16 random bits.
TEST(QuickLevels, AreNeverWrongWhenCertain) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<float> exponent(-110, 110), share(-1, 1);
  const double levels[] = {1, 3, 7, 15, 100.5, 255, 32767, kQsgdMostLevels};
  uint64_t uncertain = 0, all = 0;
  for (int i = 0; i < 40000; ++i) {
    const bool intervals = i % 2 == 1;
    const QsgdBucket bucket{std::exp2(exponent(random)), 0, levels[i / 2 % 8]};
    const float v = i % 11 == 0 ? bucket.norm : bucket.norm * share(random);
    const double x = intervals ? (double{v / bucket.norm} + 1) * (bucket.s / 2)
                               : double{std::abs(v) / bucket.norm} * bucket.s;
    const auto near = static_cast<int64_t>((x - std::floor(x)) * 65536);
    for (int64_t d = near - 3; d <= near + 3; ++d) {
      if (d < 0 || d > 65535) continue;
      const auto draw = static_cast<uint32_t>(d);
      const auto level = [&](uint32_t finer) {
        return QsgdLevel(intervals, v, bucket, draw, [finer] { return finer; });
      };
      uint32_t quick = 0;
      all += bucket.s <= 15;
      if (!QuickLevel(QsgdQuickOf(intervals, bucket), intervals ? v : std::abs(v), draw, &quick)) {
        uncertain += bucket.s <= 15;
        continue;
      }
      ASSERT_EQ(quick, level(0)) << v << " of " << bucket.norm << ", draw " << d;
      ASSERT_EQ(quick, level(65535)) << v << " of " << bucket.norm << ", draw " << d;
    }
  }
  EXPECT_LT(uncertain * 2, all)
      << "with few levels, it decides most of the seven draws nearest to the boundary";
}

}  // namespace
}  // namespace tern::kernels
