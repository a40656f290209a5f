// Tests that GPU kernels give the same bits as the CPU kernels: statistics, ternary codes and
// optimizers. Without the CUDA toolkit, the GPU kernels run on the CPU (tests/kernels/cuda_on_host
// emulates CUDA).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/codes/planes.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/codes/ternary_math.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/update/optimizer.h"
#include "kernels/update/optimizer_math.h"
#include "kernels/update/update.h"
#include "tests/kernels/device/device_array.h"
#include "tests/kernels/device/device_parts.h"

namespace tern::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class DeviceKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasDevice()) GTEST_SKIP() << "there is no GPU here";
  }
};

std::vector<Stats> StatsOf(const std::vector<float>& values, const std::vector<Part>& parts) {
  TilingOnDevice tiling(parts);
  DeviceArray<float> arena(values);
  DeviceArray<DeviceStats> partial_stats(tiling.host_tiling.tiles.size()), stats(parts.size());
  DeviceArray<uint32_t> done_counters(
      std::vector<uint32_t>(NumStatsCounters(parts.size(), tiling.host_tiling.tiles.size())));
  std::vector<Stats> stats_of_parts;
  // The second run shows that counters were reset to zero.
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(ComputeStatsOnDevice(nullptr, arena.data(), tiling.Get(), partial_stats.data(),
                                   done_counters.data(), stats.data()),
              0);
    stats_of_parts.clear();
    const std::vector<DeviceStats> raw_stats = stats.Read();
    for (size_t p = 0; p < parts.size(); ++p)
      stats_of_parts.push_back(ToStats(raw_stats[p], parts[p].count));
  }
  return stats_of_parts;
}

TEST_F(DeviceKernels, StatisticsMatchCpu) {
  const auto parts = MakeParts({1, 5, 127, 128, 129, 4095, 4096, 4097, 100000, 700000, 64});
  const std::vector<float> values = NormalValues(ArenaSize(parts), 0.01f, 1);
  const std::vector<Stats> stats = StatsOf(values, parts);
  for (size_t p = 0; p < parts.size(); ++p) {
    const Stats expected = ComputeStatsRef(values.data() + parts[p].begin, parts[p].count);
    EXPECT_EQ(stats[p].sum, expected.sum) << p;
    EXPECT_EQ(stats[p].sum_squares, expected.sum_squares) << p;
    EXPECT_EQ(stats[p].max_abs, expected.max_abs) << p;
    EXPECT_TRUE(stats[p].is_finite) << p;
  }
}

// A large part has several strips. The parts after it must not use their counters.
TEST_F(DeviceKernels, StatisticsOfLargePartsMatchCpu) {
  constexpr uint64_t kStrip = uint64_t{kStripTiles} * kTile;
  const auto parts = MakeParts({kStrip + 200 * kTile + 17, 2, 77});
  std::vector<float> values(ArenaSize(parts));
  std::mt19937 random(3);
  for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random())) * 1e-9f;
  const std::vector<Stats> stats = StatsOf(values, parts);
  for (size_t p = 0; p < parts.size(); ++p) {
    const Stats expected = ComputeStatsRef(values.data() + parts[p].begin, parts[p].count);
    EXPECT_EQ(stats[p].sum, expected.sum) << p;
    EXPECT_EQ(stats[p].sum_squares, expected.sum_squares) << p;
    EXPECT_EQ(stats[p].max_abs, expected.max_abs) << p;
  }
}

TEST_F(DeviceKernels, StatisticsDetectNonFiniteValues) {
  const auto parts = MakeParts({5000, 10, 9000});
  std::vector<float> values(ArenaSize(parts), 1);
  values[parts[0].begin + 4999] = -kInfinity;
  values[parts[2].begin + 8000] = std::nanf("");
  const std::vector<Stats> stats = StatsOf(values, parts);
  EXPECT_FALSE(stats[0].is_finite);
  EXPECT_TRUE(stats[1].is_finite);
  EXPECT_FALSE(stats[2].is_finite);
}

NoiseKey NoiseKeyOf(uint64_t seed) { return {seed, NoiseStream::kCodes, 3, 1234567, 0}; }

// Returns the codes of each chunk, computed by the reference function on the CPU.
std::vector<std::vector<uint8_t>> ReferenceCodes(const std::vector<float>& values,
                                                 const std::vector<Part>& parts,
                                                 const std::vector<TernaryScale>& scales,
                                                 NoiseKey key) {
  std::vector<std::vector<uint8_t>> chunks;
  for (size_t p = 0; p < parts.size(); ++p) {
    const Part& part = parts[p];
    if (part.chunk == chunks.size()) chunks.emplace_back();
    key.tensor = part.tensor;
    std::vector<uint8_t> mask(PlaneBytes(part.count)), signs(PlaneBytes(part.count));
    const size_t num_ones =
        TernarizeRef(values.data() + part.begin, part.count, scales[p].scaler, scales[p].clip, key,
                     part.first, mask.data(), signs.data());
    signs.resize(PlaneBytes(num_ones));
    chunks.back().insert(chunks.back().end(), mask.begin(), mask.end());
    chunks.back().insert(chunks.back().end(), signs.begin(), signs.end());
  }
  return chunks;
}

void ExpectCodesMatchCpu(const std::vector<float>& values, const std::vector<Part>& parts,
                         const std::vector<TernaryScale>& scales, uint64_t seed) {
  TilingOnDevice tiling(parts);
  const size_t num_tiles = tiling.host_tiling.tiles.size(),
               num_chunks = tiling.host_tiling.chunks.size();
  DeviceArray<float> arena(values);
  DeviceArray<TernaryScale> device_scales(scales);
  DeviceArray<uint64_t> tile_states(std::vector<uint64_t>(num_tiles, 0)),
      part_states(std::vector<uint64_t>(parts.size(), 0)), sizes(num_chunks);
  DeviceArray<uint32_t> num_finished(std::vector<uint32_t>(num_chunks, 0)),
      num_begun(std::vector<uint32_t>(1, 0));
  DeviceArray<uint8_t> out(tiling.host_tiling.out_bytes);
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(TernarizeOnDevice(
                  nullptr, arena.data(), tiling.Get(), device_scales.data(), NoiseKeyOf(seed),
                  {tile_states.data(), part_states.data(), num_finished.data(), num_begun.data()},
                  out.data(), sizes.data()),
              0);
  }
  // So that the next call finds what it needs.
  EXPECT_THAT(tile_states.Read(), testing::Each(0));
  EXPECT_THAT(part_states.Read(), testing::Each(0));
  EXPECT_THAT(num_finished.Read(), testing::Each(0));
  EXPECT_THAT(num_begun.Read(), testing::Each(0));
  const std::vector<uint8_t> bytes = out.Read();
  const std::vector<uint64_t> host_sizes = sizes.Read();
  const auto expected = ReferenceCodes(values, parts, scales, NoiseKeyOf(seed));
  ASSERT_EQ(num_chunks, expected.size());
  for (size_t c = 0; c < num_chunks; ++c) {
    ASSERT_EQ(host_sizes[c], expected[c].size()) << "chunk " << c;
    EXPECT_EQ(std::memcmp(bytes.data() + tiling.host_tiling.chunks[c].code_begin,
                          expected[c].data(), host_sizes[c]),
              0)
        << "chunk " << c;
  }
}

TEST_F(DeviceKernels, TernaryCodesMatchCpu) {
  const auto parts =
      MakeParts({1, 7, 8, 9, 4096, 4097, 40960, 12345, 3, 8191, 100001, 64, 5, 4095, 33000});
  const std::vector<float> values = NormalValues(ArenaSize(parts), 0.01f, 2);
  std::vector<TernaryScale> scales(parts.size(), {0.025f, 0.025f});
  scales[4] = {0.03f, kInfinity};
  scales[5] = {0.01f, 0.02f};  // Some values exceed this scaler.
  scales[8] = {0, 0.02f};
  ExpectCodesMatchCpu(values, parts, scales, 11);
}

// Nearly all codes are 0, so a byte of signs can have bits of several tiles.
TEST_F(DeviceKernels, SignsOfManyTilesCanShareAByte) {
  const auto parts = MakeParts({50000, 60000, 70000});
  const std::vector<float> values = NormalValues(ArenaSize(parts), 0.01f, 3);
  ExpectCodesMatchCpu(values, parts, {{20, kInfinity}, {300, kInfinity}, {3, kInfinity}}, 12);
}

TEST_F(DeviceKernels, ChunkOfManyPartsIsCodedLikeCpu) {
  std::vector<uint64_t> sizes(70, 300);
  sizes[40] = 300 * kTile + 5;
  auto parts = MakeParts(sizes);
  for (Part& part : parts) part.chunk = 0;
  const std::vector<float> values = NormalValues(ArenaSize(parts), 0.01f, 5);
  ExpectCodesMatchCpu(values, parts, std::vector<TernaryScale>(70, {0.025f, 0.025f}), 14);
}

TEST_F(DeviceKernels, OddValuesAreCodedLikeCpu) {
  const auto parts = MakeParts({5000, 5000, 5000, 5000});
  std::vector<float> values = NormalValues(ArenaSize(parts), 1, 4);
  const float odd_values[] = {0.f,       -0.f,       1e-45f,        -1e-40f,
                              kInfinity, -kInfinity, std::nanf(""), 3e38f};
  for (size_t i = 0; i < values.size(); i += 7) values[i] = odd_values[i / 7 % 8];
  ExpectCodesMatchCpu(values, parts,
                      {{2.5f, 2.5f}, {1e-42f, kInfinity}, {3e38f, 3e38f}, {std::nanf(""), 1}}, 13);
}

// Returns random sums of ternary codes, each from -workers to workers. Bit p of every sum (in two's
// complement) is stored in bit plane p.
std::vector<uint8_t> RandomPlanes(uint64_t count, uint32_t workers, std::mt19937_64* random) {
  const auto num_bits = static_cast<size_t>(SumBits(static_cast<int>(workers)));
  const size_t stride = PlaneBytes(count);
  std::vector<uint8_t> planes(num_bits * stride);
  std::uniform_int_distribution<int> distribution(-static_cast<int>(workers),
                                                  static_cast<int>(workers));
  for (uint64_t i = 0; i < count; ++i) {
    const auto sum = static_cast<uint32_t>(distribution(*random));
    for (size_t p = 0; p < num_bits; ++p)
      planes[p * stride + i / 8] |= static_cast<uint8_t>((sum >> p & 1) << i % 8);
  }
  return planes;
}

// Makes the optimizer step with the CPU kernels.
void UpdateOnCpu(const UpdateStep& step, const TensorRates& rates, const float* g, size_t n,
                 float* w, float* m, float* v) {
  const float lr = step.lr * rates.rate_times;
  AdamStep adam = step.adam;
  adam.rate *= rates.rate_times;
  RmspropStep rmsprop = step.rmsprop;
  rmsprop.lr *= rates.rate_times;
  switch (step.rule) {
    case UpdateRule::kSgd:
      return SgdUpdate(w, g, n, lr, rates.decay);
    case UpdateRule::kMomentum:
      return MomentumUpdate(w, m, g, n, lr, step.momentum, rates.decay);
    case UpdateRule::kNesterov:
      return NesterovUpdate(w, m, g, n, lr, step.momentum, rates.decay);
    case UpdateRule::kLars:
      return LarsUpdate(w, m, g, n, lr, rates.local_rate, step.momentum, rates.decay);
    case UpdateRule::kAdam:
      return AdamUpdate(w, m, v, g, n, adam, rates.decay);
    case UpdateRule::kRmsprop:
      if (rates.rate_times == 0) return;  // as common/update/optimizer.cc
      return RmspropUpdate(w, m, v, g, n, rmsprop, rates.decay);
  }
}

// A model's weights and optimizer state.
struct Model {
  explicit Model(size_t n)
      : w(NormalValues(n, 1, 21)), m(NormalValues(n, 0.1f, 22)), v(NormalValues(n, 0.1f, 23)) {
    for (float& x : v) x = std::abs(x);
  }
  std::vector<float> w, m, v;  // Weights, and first and second moments of the optimizer.
};

class DeviceUpdates : public DeviceKernels,
                      public testing::WithParamInterface<std::tuple<UpdateRule, uint32_t>> {};

TEST_P(DeviceUpdates, MatchCpu) {
  const auto [rule, workers] = GetParam();
  const auto parts = MakeParts({1, 7, 4096, 4097, 12345, 9, 20000});
  UpdateStep step{rule,
                  0.1f,
                  0.9f,
                  {0.001f, 1.02f, 0.9f, 0.1f, 0.999f, 0.001f, 1e-8f},
                  {0.01f, 0.9f, 0.8f, 0.2f, 1e-3f}};
  std::mt19937_64 random(6);
  std::vector<uint8_t> sums;
  std::vector<SumLocation> locations;
  std::vector<TensorRates> rates;
  Model host_model(ArenaSize(parts));
  const Model initial_model = host_model;
  for (const Part& part : parts) {
    const auto planes = RandomPlanes(part.count, workers, &random);
    locations.push_back({sums.size(), 0.01f + 0.001f * static_cast<float>(part.tensor)});
    // The rate of tensor 3 has ended.
    rates.push_back({part.tensor % 2 == 0 ? 0.0005f : 0, 0.02f,
                     part.tensor == 3 ? 0 : 1 + 0.3f * static_cast<float>(part.tensor)});
    sums.insert(sums.end(), planes.begin(), planes.end());
    std::vector<float> mean(part.count);
    ASSERT_TRUE(DecodeMeanRef(planes.data(), part.count, static_cast<int>(workers),
                              locations.back().scaler, 0, part.count, mean.data()));
    UpdateOnCpu(step, rates.back(), mean.data(), part.count, host_model.w.data() + part.begin,
                host_model.m.data() + part.begin, host_model.v.data() + part.begin);
  }
  TilingOnDevice tiling(parts);
  DeviceArray<uint8_t> device_sums(sums);
  DeviceArray<SumLocation> device_locations(locations);
  DeviceArray<TensorRates> device_rates(rates);
  DeviceArray<uint32_t> num_bad(std::vector<uint32_t>(1));
  DeviceArray<float> means(ArenaSize(parts));
  for (const bool decodes_first : {false, true}) {
    DeviceArray<float> w(initial_model.w), m(initial_model.m), v(initial_model.v);
    const ModelArenas model{w.data(), m.data(), v.data()};
    if (decodes_first) {
      EXPECT_EQ(DecodeOnDevice(nullptr, tiling.Get(), device_sums.data(), device_locations.data(),
                               workers, means.data(), num_bad.data()),
                0);
      EXPECT_EQ(
          UpdateOnDevice(nullptr, tiling.Get(), means.data(), step, device_rates.data(), model), 0);
    } else {
      EXPECT_EQ(DecodeAndUpdateOnDevice(nullptr, tiling.Get(), device_sums.data(),
                                        device_locations.data(), workers, step, device_rates.data(),
                                        model, num_bad.data()),
                0);
    }
    EXPECT_EQ(w.Read(), host_model.w);
    EXPECT_EQ(m.Read(), host_model.m);
    EXPECT_EQ(v.Read(), host_model.v);
  }
  EXPECT_EQ(num_bad.Read()[0], 0u);
}

INSTANTIATE_TEST_SUITE_P(Each, DeviceUpdates,
                         testing::Combine(testing::Values(UpdateRule::kSgd, UpdateRule::kMomentum,
                                                          UpdateRule::kNesterov, UpdateRule::kLars,
                                                          UpdateRule::kAdam, UpdateRule::kRmsprop),
                                          testing::Values(1, 2, 7, 12, 100, 2047)));

// Sums of three workers have three bits, and -4 is an invalid sum. Only element 616 has this sum.
// A bit after the last element is set, too, but must be ignored.
TEST_F(DeviceKernels, InvalidSumsAreCounted) {
  const auto parts = MakeParts({4999});
  std::vector<uint8_t> planes(3 * PlaneBytes(4999));
  planes[2 * PlaneBytes(4999) + 77] = 1;
  planes.back() = 0x80;
  TilingOnDevice tiling(parts);
  DeviceArray<float> w(NormalValues(4999, 1, 1));
  DeviceArray<uint8_t> device_sums(planes);
  DeviceArray<SumLocation> device_locations(std::vector<SumLocation>{{0, 1}});
  DeviceArray<TensorRates> device_rates(std::vector<TensorRates>(1));
  DeviceArray<uint32_t> num_bad(std::vector<uint32_t>(1));
  EXPECT_EQ(DecodeAndUpdateOnDevice(nullptr, tiling.Get(), device_sums.data(),
                                    device_locations.data(), 3, {}, device_rates.data(),
                                    {w.data(), nullptr, nullptr}, num_bad.data()),
            0);
  EXPECT_EQ(num_bad.Read()[0], 1u);
}

// The decision of DecideQuickly for one element.
struct QuickDecision {
  uint32_t not_firing, negative, unsure;
};

// DecideQuickly decides eight elements at once. Passes it the same element eight times, checks that
// all decisions are equal, and returns the first one.
QuickDecision DecideOneElement(float g, float s, float clip, uint32_t draw16) {
  const float eight[8] = {g, g, g, g, g, g, g, g};
  const uint32_t doubled_draw = draw16 * 0x10001;
  const QuickCodes codes = DecideQuickly(
      eight, {{doubled_draw, doubled_draw, doubled_draw, doubled_draw}}, QuickScaleOf(s, clip));
  for (const uint32_t bits : {codes.not_firing, codes.negative})
    EXPECT_TRUE(bits == 0 || bits == 0xFF) << bits;
  return {codes.not_firing & 1, codes.negative & 1, codes.min_margin >= kMinMargin ? 0u : 1u};
}

// A code is decided by a 32-bit random number. DecideQuickly sees its upper 16 bits and reports
// whether the lower bits could matter. If it is sure, the decision must be right for all lower
// bits.
TEST(QuickDecisions, AreNeverWrongWhenCertain) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<float> exponent(-90, 90), fraction(0, 1.2f);
  uint64_t num_unsure = 0, num_decisions = 0;
  for (int i = 0; i < 40000; ++i) {
    const float s = std::exp2(exponent(random)), g = s * fraction(random);
    const float clip = i % 2 == 0 ? kInfinity : s * fraction(random);
    const float clipped = g < clip ? g : clip, saturated = clipped < s ? clipped : s;
    // The threshold is 2^32 if `saturated` equals s.
    const auto threshold = static_cast<uint64_t>(static_cast<double>(saturated / s) * 0x1p32);
    const auto nearest_draw = static_cast<int64_t>(threshold >> 16);
    for (int64_t d = nearest_draw - 3; d <= nearest_draw + 3; ++d) {
      if (d < 0 || d > 65535) continue;
      const auto draw = static_cast<uint64_t>(d) << 16;
      const QuickDecision codes =
          DecideOneElement(i % 3 == 0 ? -g : g, s, clip, static_cast<uint32_t>(d));
      ASSERT_EQ(codes.negative, i % 3 == 0 ? 1u : 0u);
      const bool is_right = codes.unsure != 0 ||
                            (codes.not_firing == 0 ? draw + 65535 < threshold : draw >= threshold);
      ASSERT_TRUE(is_right) << g << " of " << s << ", clip " << clip << ", draw " << d;
      num_unsure += codes.unsure;
      ++num_decisions;
    }
  }
  EXPECT_LT(num_unsure * 6, num_decisions)
      << "it is unsure only about one of the seven nearest draws";
}

TEST(QuickDecisions, AreUnsureAboutNansAndExtremeScalers) {
  const float nan = std::nanf("");
  for (const uint32_t d : {0u, 1u, 40000u, 65535u}) {
    for (const float clip : {kInfinity, 0.5f}) {
      EXPECT_EQ(DecideOneElement(nan, 1, clip, d).unsure, 1u) << d;
      EXPECT_EQ(DecideOneElement(-nan, 1, clip, d).unsure, 1u) << d;
    }
    EXPECT_EQ(DecideOneElement(1, 0x1p-120f, kInfinity, d).unsure, 1u) << d;
    EXPECT_EQ(DecideOneElement(1, 0x1p120f, kInfinity, d).unsure, 1u) << d;
  }
}

// If the scaler is 0, negative or NaN, or the limit `clip` is negative or NaN, DecideQuickly must
// be sure that the code is 0.
TEST(QuickDecisions, DecideForZeroScalers) {
  const float nan = std::nanf("");
  for (const auto& [s, clip] : std::vector<std::pair<float, float>>{
           {0.f, kInfinity}, {-1.f, kInfinity}, {nan, kInfinity}, {1.f, nan}, {1.f, -1.f}}) {
    for (const float g : {0.f, 1.f, -3e38f}) {
      const QuickDecision codes = DecideOneElement(g, s, clip, 1);
      EXPECT_EQ(codes.not_firing & ~codes.unsure, 1u) << g << " of " << s << ", clip " << clip;
    }
  }
}

// CompressBytes moves those bits of each byte whose mask bit is 1 to the byte's low end. The four
// bytes of a word must not affect each other.
TEST(CompressBytes, CompressesEachByteAlone) {
  for (uint32_t mask = 0; mask < 256; ++mask) {
    for (uint32_t bits = 0; bits < 256; ++bits) {
      uint32_t packed_bits = 0, num_ones = 0;
      for (uint32_t k = 0; k < 8; ++k) {
        if ((mask >> k & 1) != 0) packed_bits |= (bits >> k & 1) << num_ones++;
      }
      const uint32_t compressed_word =
          CompressBytes(bits * 0x01010001, mask * 0x01010001 | 0xA500) & ~0xFF00u;
      ASSERT_EQ(compressed_word, packed_bits * 0x01010001) << mask << " " << bits;
      ASSERT_EQ(CompressBytes(bits << 8 | 0xFFFF00FF, mask << 8 | 0xFFFF00FF),
                packed_bits << 8 | 0xFFFF00FF);
    }
  }
}

}  // namespace
}  // namespace tern::kernels
