// The codes of a GPU are those of the codecs, byte by byte, and mean the same there.
#include "kernels/device_codes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/onebit_inl.h"
#include "tests/kernels/device_coded.h"

namespace tern::kernels {
namespace {

using codec::Options;

class OneBitCoder {
 public:
  // `columns`: of each part.
  OneBitCoder(const std::vector<Part>& parts, const std::vector<uint64_t>& columns)
      : parts_(parts),
        columns_(columns),
        cut_(CutIntoTiles(parts)),
        places_(
            PlaceCodes([&](size_t p) { return OneBitSize(parts[p].count, columns[p]); }, &cut_)),
        tiling_(cut_),
        place_(places_),
        group_(GroupParts(cut_, columns, &groups_)),
        partial_(2 * cut_.tiles.size()),
        done_(std::vector<uint32_t>(cut_.tiles.size())),
        means_(2 * groups_),
        bad_(std::vector<uint32_t>(1)) {}

  // The chunks' codes; the residual is null or has the arena's size.
  Rows Code(const std::vector<float>& g, DeviceArray<float>* residual) {
    DeviceArray<float> arena(g);
    DeviceArray<uint8_t> out(cut_.out_bytes);
    EXPECT_EQ(
        OneBitOnDevice(nullptr, arena.data(), residual == nullptr ? nullptr : residual->data(),
                       tiling_.Get(), group_.data(), place_.data(),
                       {partial_.data(), done_.data(), means_.data()}, out.data(), bad_.data()),
        0);
    std::vector<uint64_t> sizes(cut_.chunks.size());
    for (size_t p = 0; p < parts_.size(); ++p) sizes[cut_.parts[p].part.chunk] += places_[p].size;
    return ChunksOf(out.Read(), cut_, sizes);
  }
  std::vector<float> Read(const CodeRow& row) {
    DeviceArray<uint8_t> codes(row.bytes);
    DeviceArray<CodePlace> places(row.places);
    DeviceArray<float> arena(std::vector<float>(parts_.back().begin + parts_.back().count));
    EXPECT_EQ(ReadOneBitOnDevice(nullptr, tiling_.Get(), codes.data(), group_.data(), places.data(),
                                 arena.data(), bad_.data()),
              0);
    return arena.Read();
  }
  uint32_t bad() const { return bad_.Read()[0]; }

 private:
  std::vector<Part> parts_;
  std::vector<uint64_t> columns_;
  Tiling cut_;
  std::vector<CodePlace> places_;
  uint64_t groups_ = 0;
  OnDevice tiling_;
  DeviceArray<CodePlace> place_;
  DeviceArray<GroupedPart> group_;
  DeviceArray<OneBitSums> partial_;
  DeviceArray<uint32_t> done_;
  DeviceArray<float> means_;
  DeviceArray<uint32_t> bad_;
};

// Sizes of groups of all kinds: one element, few, a warp's, a block's, and of several blocks that
// end anywhere.
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
    std::vector<float> left = residual.Read();
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
      ASSERT_TRUE(codec->DecodeAlone(code, SegmentOf(part, kColumns[p]), sent.data()).ok());
      std::copy(sent.begin(), sent.end(), read.begin() + static_cast<std::ptrdiff_t>(part.begin));
      if (!feedback) continue;
      memories[p]->Keep(0, v, sent);
      SavedState state;
      memories[p]->AddState(&state);
      const auto begin = left.begin() + static_cast<std::ptrdiff_t>(part.begin);
      ExpectSameBits({begin, begin + static_cast<std::ptrdiff_t>(part.count)},
                     {state.arrays[0].values.begin(), state.arrays[0].values.end()});
    }
    ASSERT_EQ(coded.size(), expected.size());
    for (size_t c = 0; c < coded.size(); ++c) EXPECT_EQ(coded[c], expected[c]) << "chunk " << c;
    ExpectSameBits(coder.Read(row), read);
  }
  EXPECT_EQ(coder.bad(), 0u);
}

TEST_F(DeviceCodes, OfOneBitAreTheCpus) {
  const size_t n = EndOf(PartsOf(kCounts));
  std::vector<float> odd = Normal(n, 1, 2), zeros(n);
  AddOddValues(&odd);
  ExpectOneBit({Normal(n, 0.01f, 1), odd, zeros, std::vector<float>(n, -0.5f)}, false);
}

TEST_F(DeviceCodes, OfOneBitKeepWhatTheyLeaveOut) {
  const size_t n = EndOf(PartsOf(kCounts));
  std::vector<float> odd = Normal(n, 1, 2);
  AddOddValues(&odd);
  ExpectOneBit({Normal(n, 0.01f, 1), Normal(n, 0.01f, 2), odd, Normal(n, 0.01f, 3)}, true);
}

TEST_F(DeviceCodes, OfOneBitTellOfWhatIsNotFinite) {
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

// What Codec::Decode of each code says, and whether the device counts some as bad.
TEST_F(DeviceCodes, OfOneBitThatAreNoneAreCounted) {
  const auto parts = PartsOf({1003});
  const codec::Segment segment = SegmentOf(parts[0], 10);
  const auto codec = Made("onebit", {});
  std::vector<uint8_t> code;
  codec->Encode(Normal(1003, 1, 1).data(), segment, {}, {}, &code);
  const auto expect = [&](const std::vector<uint8_t>& bytes, bool good) {
    std::vector<float> mean(1003);
    EXPECT_EQ(codec->Decode(bytes, segment, 1, 0, 0, 1003, mean.data()).ok(), good);
    OneBitCoder coder(parts, {10});
    CodeRow row;
    row.Add(bytes);
    coder.Read(row);
    EXPECT_EQ(coder.bad() == 0, good);
  };
  expect(code, true);
  for (const size_t size : {size_t{0}, size_t{1}, code.size() - 1, code.size() + 1}) {
    auto other = code;
    other.resize(size);
    expect(other, false);
  }
  auto bits = code;
  bits.back() |= 0x80;
  expect(bits, false);
  for (const float mean : {1.f, -0.f, -INFINITY, std::nanf("")}) {
    auto other = code;
    std::memcpy(other.data() + 17 * 8, &mean, 4);
    expect(other, false);
  }
  for (const float mean : {-1.f, -0.f, INFINITY, std::nanf("")}) {
    auto other = code;
    std::memcpy(other.data() + 100 * 8 + 4, &mean, 4);
    expect(other, false);
  }
}

}  // namespace
}  // namespace tern::kernels
