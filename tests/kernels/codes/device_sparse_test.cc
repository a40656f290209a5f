// Tests that deep gradient compression (DGC, the codec topk) gives the same bits on a GPU as on the
// CPU: the memory of unsent gradients, the statistics and the codes. An element is sent if its
// magnitude reaches the threshold of its tensor. An arena is one array with all tensors. As in the
// paper, u is the accumulated momentum and v is what remains to be sent.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "common/codec/select.h"
#include "kernels/codes/sparse.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/topk.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "tests/kernels/codes/device_coded.h"
#include "tests/kernels/same_bits.h"

namespace tern::kernels {
namespace {

using codec::Options;

std::vector<float> ValuesOfPart(const std::vector<float>& arena, const Part& part) {
  const auto begin = arena.begin() + static_cast<std::ptrdiff_t>(part.begin);
  return {begin, begin + static_cast<std::ptrdiff_t>(part.count)};
}

// Encodes and decodes on the device.
class SparseCoder {
 public:
  explicit SparseCoder(const std::vector<Part>& parts)
      : parts_(parts),
        tiling_(CutIntoTiles(parts)),
        code_ranges_(LayOutParts()),
        device_tiling_(tiling_) {}

  CodesOfChunks Encode(DeviceArray<float>* arena, const std::vector<float>& thresholds,
                       const SparseMemory& memory = {}) {
    DeviceArray<float> device_thresholds(thresholds);
    DeviceArray<uint8_t> out(tiling_.out_bytes);
    DeviceArray<uint64_t> sizes(tiling_.chunks.size());
    EXPECT_EQ(SparseOnDevice(
                  nullptr, arena->data(), device_tiling_.Get(), device_thresholds.data(), memory,
                  {masks_.data(), sent_counts_.data(), body_offsets_.data(), done_counters_.data()},
                  out.data(), sizes.data()),
              0);
    return SplitIntoChunks(out.Read(), tiling_, sizes.Read());
  }
  // Decodes the codes. Adds the number of invalid codes to *num_bad.
  std::vector<float> Decode(const CodeRow& row, uint32_t* num_bad) {
    DeviceArray<uint8_t> codes(row.bytes);
    DeviceArray<CodeRange> ranges(row.ranges);
    DeviceArray<float> arena(std::vector<float>(ArenaSize(parts_)));
    DeviceArray<uint32_t> counter(std::vector<uint32_t>{*num_bad});
    EXPECT_EQ(ReadSparseOnDevice(nullptr, device_tiling_.Get(), codes.data(), ranges.data(),
                                 body_offsets_.data(), arena.data(), counter.data()),
              0);
    *num_bad = counter.Read()[0];
    return arena.Read();
  }

 private:
  std::vector<CodeRange> LayOutParts() {
    const auto codec = MakeCheckedCodec("topk", {});
    return LayOutCodes([&](size_t p) { return codec->MaxEncodedSize(SegmentOf(parts_[p])); },
                       &tiling_);
  }

  std::vector<Part> parts_;
  Tiling tiling_;
  std::vector<CodeRange> code_ranges_;
  TilingOnDevice device_tiling_;
  DeviceArray<uint32_t> masks_{tiling_.tiles.size() * kTile / 32},
      sent_counts_{tiling_.tiles.size()};
  DeviceArray<uint64_t> body_offsets_{tiling_.tiles.size()};
  DeviceArray<uint32_t> done_counters_{std::vector<uint32_t>(tiling_.chunks.size())};
};

// The codes of all parts, as the codec makes them on the CPU, and the values that they decode to.
struct CpuCodes {
  CpuCodes(const std::vector<Part>& parts, const std::vector<float>& v,
           const std::vector<float>& thresholds)
      : values(ArenaSize(parts)) {
    const auto codec = MakeCheckedCodec("topk", {});
    for (size_t p = 0; p < parts.size(); ++p) {
      if (parts[p].chunk == chunks.size()) chunks.emplace_back();
      codec::EncodeParams encode_params;
      encode_params.high = thresholds[p];
      std::vector<uint8_t> code;
      codec->Encode(v.data() + parts[p].begin, SegmentOf(parts[p]), encode_params, {}, &code);
      std::vector<uint8_t>& chunk = chunks[parts[p].chunk];
      chunk.insert(chunk.end(), code.begin(), code.end());
      row.AppendCode(code);
      EXPECT_TRUE(
          codec->DecodeSingleCode(code, SegmentOf(parts[p]), values.data() + parts[p].begin).ok());
    }
  }
  CodesOfChunks chunks;
  CodeRow row;
  std::vector<float> values;
};

void ExpectCodesMatchCpu(const std::vector<Part>& parts, const std::vector<float>& v,
                         const std::vector<float>& thresholds) {
  const CpuCodes expected(parts, v, thresholds);
  SparseCoder coder(parts);
  DeviceArray<float> arena(v);
  for (int run = 0; run < 2; ++run) {
    const CodesOfChunks device_chunks = coder.Encode(&arena, thresholds);
    ASSERT_EQ(device_chunks.size(), expected.chunks.size());
    for (size_t c = 0; c < device_chunks.size(); ++c)
      EXPECT_EQ(device_chunks[c], expected.chunks[c]) << "chunk " << c;
  }
  uint32_t num_bad = 0;
  ExpectSameBits(coder.Decode(expected.row, &num_bad), expected.values);
  EXPECT_EQ(num_bad, 0u);
}

// The thresholds are such that no elements are sent, or few, many, nearly all, or all.
TEST_F(DeviceCodes, SparseMatchesCpu) {
  const auto parts = MakeParts({1, 7, 4096, 4097, 8192, 9, 300, 9001, 4096, 600, 500, 31});
  const std::vector<float> v = NormalValues(ArenaSize(parts), 1, 1);
  ExpectCodesMatchCpu(parts, v, {0, 1, 3, 3, 2, 1, 1, 3.5f, 0.6f, 0.03f, 0, 100});
  ExpectCodesMatchCpu(parts, v, {9, 0, 0, 0.5f, 0.02f, 0, 0.01f, 9, 1.5f, 0.7f, 2.5f, 0});
}

TEST_F(DeviceCodes, OddSparseValuesMatchCpu) {
  const auto parts = MakeParts({4096, 5000, 4099, 3000, 4096});
  std::vector<float> v = NormalValues(ArenaSize(parts), 1, 2);
  OverwriteWithOddValues(&v);
  // The first 3000 values of part 2 are at its threshold; part 3 has only zeros.
  for (size_t i = 0; i < 3000; ++i) v[parts[2].begin + i] = i % 5 == 0 ? -1.5f : 1.5f;
  for (size_t i = 0; i < 3000; ++i) v[parts[3].begin + i] = i % 2 == 0 ? 0.f : -0.f;
  ExpectCodesMatchCpu(parts, v, {0, 1e-45f, 1.5f, 0, 1e20f});
}

// The format of the positions depends on how many elements are sent. Tests numbers of sent elements
// near every change of the format.
TEST_F(DeviceCodes, EverySparseLayoutMatchesCpu) {
  std::vector<uint64_t> part_sizes;
  std::vector<uint32_t> num_sent;
  for (const uint32_t k : {1u, 2u, 3u, 7u, 64u, 200u, 511u, 513u, 700u, 900u, 1300u, 2047u, 3900u,
                           3966u, 3968u, 3969u, 4095u}) {
    part_sizes.push_back(kTile);
    num_sent.push_back(k);
  }
  const auto parts = MakeParts(part_sizes);
  std::vector<float> v(ArenaSize(parts)), thresholds;
  std::mt19937_64 random(3);
  for (size_t p = 0; p < parts.size(); ++p) {
    const auto begin = v.begin() + static_cast<std::ptrdiff_t>(parts[p].begin);
    std::fill_n(begin, num_sent[p], 2.0f);
    std::fill_n(begin + num_sent[p], kTile - num_sent[p], 0.5f);
    std::shuffle(begin, begin + kTile, random);
    thresholds.push_back(1);
  }
  ExpectCodesMatchCpu(parts, v, thresholds);
}

// Compresses the gradients of two rounds on the CPU and on the device. Compares codes and memories.
void ExpectRoundsMatchCpu(const Options::TopK& topk, const std::vector<float>& thresholds) {
  Options options;
  options.topk = topk;
  const auto codec = MakeCheckedCodec("topk", options);
  const auto parts = MakeParts({1, 100, 5000, 900});
  const size_t n = ArenaSize(parts);
  std::vector<std::unique_ptr<codec::Memory>> memories;
  for (const Part& part : parts) memories.push_back(codec->NewMemory(part.count));
  TilingOnDevice tiling(parts);
  SparseCoder coder(parts);
  DeviceArray<float> u(std::vector<float>(n, 0)), v(std::vector<float>(n, 0));
  DeviceArray<DeviceStats> partial_stats(tiling.host_tiling.tiles.size()), stats(parts.size());
  DeviceArray<uint32_t> done_counters(
      std::vector<uint32_t>(NumStatsCounters(parts.size(), tiling.host_tiling.tiles.size())));
  const bool has_momentum = topk.momentum > 0;
  for (uint64_t round = 0; round < 2; ++round) {
    const std::vector<float> g = NormalValues(n, 1, round);
    DeviceArray<float> arena(g);
    EXPECT_EQ(ComputeStatsOnDevice(nullptr, arena.data(), tiling.Get(), partial_stats.data(),
                                   done_counters.data(), stats.data()),
              0);
    EXPECT_EQ(AddToDgcOnDevice(nullptr, arena.data(), tiling.Get(),
                               {static_cast<float>(topk.momentum), topk.nesterov, topk.clip_norm},
                               stats.data(), has_momentum ? u.data() : nullptr, v.data()),
              0);
    std::vector<float> compensated(n);
    for (size_t p = 0; p < parts.size(); ++p) {
      const std::span<const float> v_of_part =
          memories[p]->Compensate(0, ValuesOfPart(g, parts[p]), {});
      std::copy(v_of_part.begin(), v_of_part.end(), compensated.data() + parts[p].begin);
    }
    const std::vector<float> device_compensated = v.Read();
    for (const Part& part : parts)
      ExpectSameBits(ValuesOfPart(device_compensated, part), ValuesOfPart(compensated, part));
    const CpuCodes cpu_codes(parts, compensated, thresholds);
    EXPECT_EQ(
        coder.Encode(&v, thresholds, {v.data(), has_momentum && topk.masking ? u.data() : nullptr}),
        cpu_codes.chunks);
    const std::vector<float> unsent = v.Read(), momenta = u.Read();
    for (size_t p = 0; p < parts.size(); ++p) {
      memories[p]->Update(0, ValuesOfPart(compensated, parts[p]),
                          ValuesOfPart(cpu_codes.values, parts[p]));
      SavedState state;
      memories[p]->AddState(&state);
      const auto saved_array = [&](size_t i) {
        return std::vector<float>(state.arrays[i].values.begin(), state.arrays[i].values.end());
      };
      ExpectSameBits(ValuesOfPart(unsent, parts[p]), saved_array(0));
      if (has_momentum) ExpectSameBits(ValuesOfPart(momenta, parts[p]), saved_array(1));
    }
  }
}

TEST_F(DeviceCodes, DgcMemoryMatchesCpu) {
  ExpectRoundsMatchCpu({}, {0, 2, 3, 2.5f});
  ExpectRoundsMatchCpu({.momentum = 0.9}, {1, 0, 2, 4});
  ExpectRoundsMatchCpu({.momentum = 0.9, .masking = false}, {1, 0.01f, 2, 4});
  ExpectRoundsMatchCpu({.momentum = 0.9, .nesterov = true, .clip_norm = 70}, {1, 2, 0.5f, 0.2f});
}

TEST_F(DeviceCodes, StatisticsOfManyTensorsMatchCpu) {
  auto parts = MakeParts({1, 700, 4096, 4097, 50000, 9, 12345});
  std::vector<float> v = NormalValues(ArenaSize(parts), 0.01f, 6);
  OverwriteWithOddValues(&v);
  std::fill_n(v.begin() + static_cast<std::ptrdiff_t>(parts[3].begin), 4000, -0.5f);
  const std::vector<uint64_t> strides = {1, 3, 1, 1, 99, 1, 5};
  for (size_t p = 0; p < parts.size(); ++p) parts[p].count = (parts[p].count - 1) / strides[p] + 1;
  const std::vector<uint32_t> ks = {1, 3, 4096, 1000, 7, 0, 1234};
  TilingOnDevice tiling(parts);
  DeviceArray<float> arena(v), kth_magnitudes(std::vector<float>(parts.size(), -7));
  DeviceArray<uint64_t> device_strides(strides);
  DeviceArray<uint32_t> device_ks(ks), done_counters(std::vector<uint32_t>(parts.size()));
  DeviceArray<uint32_t> histograms(std::vector<uint32_t>(parts.size() * kSelectBins));
  DeviceArray<uint32_t> upper_bits(parts.size()), remaining_ranks(parts.size());
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(
        KthMagnitudeOnDevice(
            nullptr, arena.data(), tiling.Get(), device_strides.data(), device_ks.data(),
            {histograms.data(), done_counters.data(), upper_bits.data(), remaining_ranks.data()},
            kth_magnitudes.data()),
        0);
  }
  const std::vector<float> magnitudes = kth_magnitudes.Read();
  std::vector<float> thresholds;
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<float> values;
    for (uint64_t i = 0; i < parts[p].count; ++i)
      values.push_back(v[parts[p].begin + i * strides[p]]);
    EXPECT_EQ(magnitudes[p], ks[p] == 0 ? -7 : codec::KthLargestMagnitude(values, ks[p])) << p;
    thresholds.push_back(magnitudes[p]);
  }
  thresholds[6] = std::nanf("");
  DeviceArray<float> device_thresholds(thresholds);
  DeviceArray<uint32_t> partial_counts(tiling.host_tiling.tiles.size()), counts(parts.size());
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(CountAtLeastOnDevice(nullptr, arena.data(), tiling.Get(), device_thresholds.data(),
                                   partial_counts.data(), done_counters.data(), counts.data()),
              0);
  }
  const std::vector<uint32_t> device_counts = counts.Read();
  for (size_t p = 0; p < parts.size(); ++p) {
    uint32_t expected = 0;
    for (const float x : ValuesOfPart(v, parts[p]))
      expected += std::abs(x) >= thresholds[p] ? 1 : 0;
    EXPECT_EQ(device_counts[p], thresholds[p] >= 0 ? expected : 0) << p;
  }
}

// Decodes the code on the CPU and on the device. Both must refuse the code, or both must decode it
// to the same values. Returns whether both refuse it.
bool IsRefused(const std::vector<uint8_t>& code, uint64_t count) {
  const std::vector<Part> parts = {{0, count, 0, 1, 0}};
  std::vector<float> mean(count);
  const bool is_valid = MakeCheckedCodec("topk", {})
                            ->Decode(code, SegmentOf(parts[0]), 1, 0, 0, count, mean.data())
                            .ok();
  CodeRow row;
  row.AppendCode(code);
  uint32_t num_bad = 0;
  const std::vector<float> decoded = SparseCoder(parts).Decode(row, &num_bad);
  EXPECT_EQ(num_bad == 0, is_valid);
  if (is_valid) ExpectSameBits(decoded, mean);
  return !is_valid;
}

// Makes 48 random changes of the code of v, and returns how many of them are refused.
uint32_t CountRefusals(const std::vector<float>& v, float threshold, uint64_t seed) {
  const CodeRow valid_row = CpuCodes({{0, v.size(), 0, 1, 0}}, v, {threshold}).row;
  std::mt19937_64 random(seed);
  uint32_t num_refused = 0;
  for (int i = 0; i < 48; ++i) {
    std::vector<uint8_t> changed_code(
        valid_row.bytes.begin(),
        valid_row.bytes.begin() + static_cast<std::ptrdiff_t>(valid_row.size));
    if (i % 12 == 0) {
      changed_code.resize(random() % (changed_code.size() + 3));
    } else {
      const size_t range = i % 3 == 0 ? 4 : i % 3 == 1 ? 60 : changed_code.size();
      changed_code[random() % std::min(range, changed_code.size())] ^=
          static_cast<uint8_t>(i % 2 == 0 ? 1u << random() % 8 : 1 + random() % 255);
    }
    num_refused += IsRefused(changed_code, v.size()) ? 1 : 0;
  }
  return num_refused;
}

TEST_F(DeviceCodes, InvalidSparseCodesAreCounted) {
  const std::vector<float> v = NormalValues(5003, 1, 1);
  EXPECT_GT(CountRefusals(v, 2.5f, 1), 20u);  // The positions are in Elias-Fano code.
  EXPECT_GT(CountRefusals(v, 0.7f, 2), 20u);  // The positions are a bitmap.
  EXPECT_GT(CountRefusals(v, 0, 3), 8u);      // All elements are sent.
  EXPECT_GT(CountRefusals(v, 3.9f, 4), 20u);  // Nearly no elements are sent.
  std::vector<float> small(v.begin(), v.begin() + 37);
  EXPECT_GT(CountRefusals(small, 1, 5), 20u);
}

// Element 999 of 1000 is the only one that is sent. Its position is coded as 9 low bits with the
// value 487 (999 modulo 512) and the quotient 999 / 512 = 1. With larger low bits, the position
// would be beyond the end.
TEST_F(DeviceCodes, SparsePositionBeyondTheLastIsRefused) {
  std::vector<float> v(1000);
  v[999] = 3;
  std::vector<uint8_t> code = CpuCodes({{0, 1000, 0, 1, 0}}, v, {1}).row.bytes;
  code.resize(2 + 2 + 4);
  ASSERT_EQ(code[2], 487 % 256);
  EXPECT_FALSE(IsRefused(code, 1000));
  code[2] = 0xFF;
  EXPECT_TRUE(IsRefused(code, 1000));
}

}  // namespace
}  // namespace tern::kernels
