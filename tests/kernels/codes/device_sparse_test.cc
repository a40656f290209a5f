// Tests that deep gradient compression (DGC, the codec topk) gives the same bits on a GPU as on the
// CPU: the memory of unsent gradients, the statistics and the codes. The code of an element is sent
// if its magnitude reaches the threshold of its tensor.
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

namespace tern::kernels {
namespace {

using codec::Options;

std::vector<float> PartOf(const std::vector<float>& arena, const Part& part) {
  const auto begin = arena.begin() + static_cast<std::ptrdiff_t>(part.begin);
  return {begin, begin + static_cast<std::ptrdiff_t>(part.count)};
}

// Encodes and decodes on the device.
class SparseCoder {
 public:
  explicit SparseCoder(const std::vector<Part>& parts)
      : parts_(parts), cut_(CutIntoTiles(parts)), ranges_(LayOut()), tiling_(cut_) {}

  Rows Code(DeviceArray<float>* arena, const std::vector<float>& thresholds,
            const SparseMemory& memory = {}) {
    DeviceArray<float> threshold(thresholds);
    DeviceArray<uint8_t> out(cut_.out_bytes);
    DeviceArray<uint64_t> sizes(cut_.chunks.size());
    EXPECT_EQ(SparseOnDevice(nullptr, arena->data(), tiling_.Get(), threshold.data(), memory,
                             {masks_.data(), sent_.data(), bodies_.data(), done_.data()},
                             out.data(), sizes.data()),
              0);
    return ChunksOf(out.Read(), cut_, sizes.Read());
  }
  // Decodes the codes. Adds the number of invalid codes to *bad.
  std::vector<float> Read(const CodeRow& row, uint32_t* bad) {
    DeviceArray<uint8_t> codes(row.bytes);
    DeviceArray<CodeRange> ranges(row.ranges);
    DeviceArray<float> arena(std::vector<float>(EndOf(parts_)));
    DeviceArray<uint32_t> counter(std::vector<uint32_t>{*bad});
    EXPECT_EQ(ReadSparseOnDevice(nullptr, tiling_.Get(), codes.data(), ranges.data(),
                                 bodies_.data(), arena.data(), counter.data()),
              0);
    *bad = counter.Read()[0];
    return arena.Read();
  }

 private:
  std::vector<CodeRange> LayOut() {
    const auto codec = Made("topk", {});
    return LayOutCodes([&](size_t p) { return codec->MaxEncodedSize(SegmentOf(parts_[p])); },
                       &cut_);
  }

  std::vector<Part> parts_;
  Tiling cut_;
  std::vector<CodeRange> ranges_;
  OnDevice tiling_;
  DeviceArray<uint32_t> masks_{cut_.tiles.size() * kTile / 32}, sent_{cut_.tiles.size()};
  DeviceArray<uint64_t> bodies_{cut_.tiles.size()};
  DeviceArray<uint32_t> done_{std::vector<uint32_t>(cut_.chunks.size())};
};

// The codes of all parts, as the codec makes them on the CPU, and their decoded values.
struct CpuCodes {
  CpuCodes(const std::vector<Part>& parts, const std::vector<float>& v,
           const std::vector<float>& thresholds)
      : values(EndOf(parts)) {
    const auto codec = Made("topk", {});
    for (size_t p = 0; p < parts.size(); ++p) {
      if (parts[p].chunk == chunks.size()) chunks.emplace_back();
      codec::Prepared prepared;
      prepared.high = thresholds[p];
      std::vector<uint8_t> code;
      codec->Encode(v.data() + parts[p].begin, SegmentOf(parts[p]), prepared, {}, &code);
      std::vector<uint8_t>& chunk = chunks[parts[p].chunk];
      chunk.insert(chunk.end(), code.begin(), code.end());
      row.Add(code);
      EXPECT_TRUE(
          codec->DecodeSingleCode(code, SegmentOf(parts[p]), values.data() + parts[p].begin).ok());
    }
  }
  Rows chunks;
  CodeRow row;
  std::vector<float> values;
};

void ExpectCodes(const std::vector<Part>& parts, const std::vector<float>& v,
                 const std::vector<float>& thresholds) {
  const CpuCodes expected(parts, v, thresholds);
  SparseCoder coder(parts);
  DeviceArray<float> arena(v);
  for (int again = 0; again < 2; ++again) {
    const Rows coded = coder.Code(&arena, thresholds);
    ASSERT_EQ(coded.size(), expected.chunks.size());
    for (size_t c = 0; c < coded.size(); ++c)
      EXPECT_EQ(coded[c], expected.chunks[c]) << "chunk " << c;
  }
  uint32_t bad = 0;
  ExpectSameBits(coder.Read(expected.row, &bad), expected.values);
  EXPECT_EQ(bad, 0u);
}

// The thresholds are such that no elements are sent, or few, many, nearly all, or all.
TEST_F(DeviceCodes, SparseMatchesCpu) {
  const auto parts = PartsOf({1, 7, 4096, 4097, 8192, 9, 300, 9001, 4096, 600, 500, 31});
  const std::vector<float> v = Normal(EndOf(parts), 1, 1);
  ExpectCodes(parts, v, {0, 1, 3, 3, 2, 1, 1, 3.5f, 0.6f, 0.03f, 0, 100});
  ExpectCodes(parts, v, {9, 0, 0, 0.5f, 0.02f, 0, 0.01f, 9, 1.5f, 0.7f, 2.5f, 0});
}

TEST_F(DeviceCodes, OddSparseValuesMatchCpu) {
  const auto parts = PartsOf({4096, 5000, 4099, 3000, 4096});
  std::vector<float> v = Normal(EndOf(parts), 1, 2);
  AddOddValues(&v);
  // Part 2 has only values at the threshold, part 3 only zeros.
  for (size_t i = 0; i < 3000; ++i) v[parts[2].begin + i] = i % 5 == 0 ? -1.5f : 1.5f;
  for (size_t i = 0; i < 3000; ++i) v[parts[3].begin + i] = i % 2 == 0 ? 0.f : -0.f;
  ExpectCodes(parts, v, {0, 1e-45f, 1.5f, 0, 1e20f});
}

// The format of the positions depends on how many elements are sent. Tests numbers near every
// change.
TEST_F(DeviceCodes, EverySparseLayoutMatchesCpu) {
  std::vector<uint64_t> counts;
  std::vector<uint32_t> sent;
  for (const uint32_t k : {1u, 2u, 3u, 7u, 64u, 200u, 511u, 513u, 700u, 900u, 1300u, 2047u, 3900u,
                           3966u, 3968u, 3969u, 4095u}) {
    counts.push_back(kTile);
    sent.push_back(k);
  }
  const auto parts = PartsOf(counts);
  std::vector<float> v(EndOf(parts)), thresholds;
  std::mt19937_64 random(3);
  for (size_t p = 0; p < parts.size(); ++p) {
    const auto begin = v.begin() + static_cast<std::ptrdiff_t>(parts[p].begin);
    std::fill_n(begin, sent[p], 2.0f);
    std::fill_n(begin + sent[p], kTile - sent[p], 0.5f);
    std::shuffle(begin, begin + kTile, random);
    thresholds.push_back(1);
  }
  ExpectCodes(parts, v, thresholds);
}

// Makes two rounds on the CPU and on the device, and compares memories and codes.
void ExpectRounds(const Options::TopK& topk, const std::vector<float>& thresholds) {
  Options options;
  options.topk = topk;
  const auto codec = Made("topk", options);
  const auto parts = PartsOf({1, 100, 5000, 900});
  const size_t n = EndOf(parts);
  std::vector<std::unique_ptr<codec::Memory>> memories;
  for (const Part& part : parts) memories.push_back(codec->NewMemory(part.count));
  OnDevice tiling(parts);
  SparseCoder coder(parts);
  DeviceArray<float> u(std::vector<float>(n, 0)), v(std::vector<float>(n, 0));
  DeviceArray<DeviceStats> partial(tiling.tiling.tiles.size()), stats(parts.size());
  DeviceArray<uint32_t> done(std::vector<uint32_t>(parts.size()));
  const bool momentum = topk.momentum > 0;
  for (uint64_t round = 0; round < 2; ++round) {
    const std::vector<float> g = Normal(n, 1, round);
    DeviceArray<float> arena(g);
    EXPECT_EQ(ComputeStatsOnDevice(nullptr, arena.data(), tiling.Get(), partial.data(), done.data(),
                                   stats.data()),
              0);
    EXPECT_EQ(AddToDgcOnDevice(nullptr, arena.data(), tiling.Get(),
                               {static_cast<float>(topk.momentum), topk.nesterov, topk.clip_norm},
                               stats.data(), momentum ? u.data() : nullptr, v.data()),
              0);
    std::vector<float> compensated(n);
    for (size_t p = 0; p < parts.size(); ++p)
      memories[p]->Compensate(0, PartOf(g, parts[p]),
                              {compensated.data() + parts[p].begin, parts[p].count});
    const std::vector<float> before = v.Read();
    for (const Part& part : parts) ExpectSameBits(PartOf(before, part), PartOf(compensated, part));
    const CpuCodes coded(parts, compensated, thresholds);
    EXPECT_EQ(coder.Code(&v, thresholds, {v.data(), momentum && topk.masking ? u.data() : nullptr}),
              coded.chunks);
    const std::vector<float> unsent = v.Read(), momenta = u.Read();
    for (size_t p = 0; p < parts.size(); ++p) {
      memories[p]->Update(0, PartOf(compensated, parts[p]), PartOf(coded.values, parts[p]));
      SavedState state;
      memories[p]->AddState(&state);
      const auto saved = [&](size_t i) {
        return std::vector<float>(state.arrays[i].values.begin(), state.arrays[i].values.end());
      };
      ExpectSameBits(PartOf(unsent, parts[p]), saved(0));
      if (momentum) ExpectSameBits(PartOf(momenta, parts[p]), saved(1));
    }
  }
}

TEST_F(DeviceCodes, DgcMemoryMatchesCpu) {
  ExpectRounds({}, {0, 2, 3, 2.5f});
  ExpectRounds({.momentum = 0.9}, {1, 0, 2, 4});
  ExpectRounds({.momentum = 0.9, .masking = false}, {1, 0.01f, 2, 4});
  ExpectRounds({.momentum = 0.9, .nesterov = true, .clip_norm = 70}, {1, 2, 0.5f, 0.2f});
}

TEST_F(DeviceCodes, StatisticsOfManyTensorsMatchCpu) {
  auto parts = PartsOf({1, 700, 4096, 4097, 50000, 9, 12345});
  std::vector<float> v = Normal(EndOf(parts), 0.01f, 6);
  AddOddValues(&v);
  std::fill_n(v.begin() + static_cast<std::ptrdiff_t>(parts[3].begin), 4000, -0.5f);
  const std::vector<uint64_t> strides = {1, 3, 1, 1, 99, 1, 5};
  for (size_t p = 0; p < parts.size(); ++p) parts[p].count = (parts[p].count - 1) / strides[p] + 1;
  const std::vector<uint32_t> ks = {1, 3, 4096, 1000, 7, 0, 1234};
  OnDevice tiling(parts);
  DeviceArray<float> arena(v), kth(std::vector<float>(parts.size(), -7));
  DeviceArray<uint64_t> stride(strides);
  DeviceArray<uint32_t> k(ks), done(std::vector<uint32_t>(parts.size()));
  DeviceArray<uint32_t> histograms(std::vector<uint32_t>(parts.size() * kSelectBins));
  DeviceArray<uint32_t> upper(parts.size()), left(parts.size());
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(KthMagnitudeOnDevice(nullptr, arena.data(), tiling.Get(), stride.data(), k.data(),
                                   {histograms.data(), done.data(), upper.data(), left.data()},
                                   kth.data()),
              0);
  }
  const std::vector<float> found = kth.Read();
  std::vector<float> thresholds;
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<float> values;
    for (uint64_t i = 0; i < parts[p].count; ++i)
      values.push_back(v[parts[p].begin + i * strides[p]]);
    EXPECT_EQ(found[p], ks[p] == 0 ? -7 : codec::KthMagnitude(values, ks[p])) << p;
    thresholds.push_back(found[p]);
  }
  thresholds[6] = std::nanf("");
  DeviceArray<float> threshold(thresholds);
  DeviceArray<uint32_t> partial(tiling.tiling.tiles.size()), counts(parts.size());
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(CountFromOnDevice(nullptr, arena.data(), tiling.Get(), threshold.data(),
                                partial.data(), done.data(), counts.data()),
              0);
  }
  const std::vector<uint32_t> counted = counts.Read();
  for (size_t p = 0; p < parts.size(); ++p) {
    uint32_t expected = 0;
    for (const float x : PartOf(v, parts[p])) expected += std::abs(x) >= thresholds[p] ? 1 : 0;
    EXPECT_EQ(counted[p], thresholds[p] >= 0 ? expected : 0) << p;
  }
}

// Decodes the code on the CPU and on the device, which must both refuse it or give the same values.
// Returns whether they refuse it.
bool IsRefused(const std::vector<uint8_t>& code, uint64_t count) {
  const std::vector<Part> parts = {{0, count, 0, 1, 0}};
  std::vector<float> mean(count);
  const bool good =
      Made("topk", {})->Decode(code, SegmentOf(parts[0]), 1, 0, 0, count, mean.data()).ok();
  CodeRow row;
  row.Add(code);
  uint32_t bad = 0;
  const std::vector<float> read = SparseCoder(parts).Read(row, &bad);
  EXPECT_EQ(bad == 0, good);
  if (good) ExpectSameBits(read, mean);
  return !good;
}

// Makes 48 random changes of the code of v, and returns how many of them are refused.
uint32_t ExpectRefusals(const std::vector<float>& v, float threshold, uint64_t seed) {
  const CodeRow right = CpuCodes({{0, v.size(), 0, 1, 0}}, v, {threshold}).row;
  std::mt19937_64 random(seed);
  uint32_t refused = 0;
  for (int i = 0; i < 48; ++i) {
    std::vector<uint8_t> other(right.bytes.begin(),
                               right.bytes.begin() + static_cast<std::ptrdiff_t>(right.size));
    if (i % 12 == 0) {
      other.resize(random() % (other.size() + 3));
    } else {
      const size_t among = i % 3 == 0 ? 4 : i % 3 == 1 ? 60 : other.size();
      other[random() % std::min(among, other.size())] ^=
          static_cast<uint8_t>(i % 2 == 0 ? 1u << random() % 8 : 1 + random() % 255);
    }
    refused += IsRefused(other, v.size()) ? 1 : 0;
  }
  return refused;
}

TEST_F(DeviceCodes, InvalidSparseCodesAreCounted) {
  const std::vector<float> v = Normal(5003, 1, 1);
  EXPECT_GT(ExpectRefusals(v, 2.5f, 1), 20u);  // Positions in Elias-Fano code.
  EXPECT_GT(ExpectRefusals(v, 0.7f, 2), 20u);  // Positions as a bitmap.
  EXPECT_GT(ExpectRefusals(v, 0, 3), 8u);      // All elements are sent.
  EXPECT_GT(ExpectRefusals(v, 3.9f, 4), 20u);  // Nearly no elements are sent.
  std::vector<float> small(v.begin(), v.begin() + 37);
  EXPECT_GT(ExpectRefusals(small, 1, 5), 20u);
}

// Element 999 of 1000 is the only one that is sent. Its position is coded as 9 low bits with the
// value 487 (999 modulo 512), and one high bit. With larger low bits, the position would be beyond
// the end.
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
