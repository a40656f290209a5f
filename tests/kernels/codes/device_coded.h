// Helpers for tests that compare the codes that a GPU makes with those of the codecs on the CPU. A
// part is a range of elements of one tensor; consecutive parts form a chunk, whose codes are
// contiguous.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "tests/kernels/device/device_parts.h"

namespace tern::kernels {

class DeviceCodes : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasDevice()) GTEST_SKIP() << "there is no GPU here";
  }
};

inline std::unique_ptr<codec::Codec> MakeCheckedCodec(const char* name,
                                                      const codec::Options& options) {
  auto codec_or_error = codec::MakeCodec(name, options);
  EXPECT_TRUE(codec_or_error.ok()) << codec_or_error.status().message();
  return std::move(*codec_or_error);
}

inline codec::Segment SegmentOf(const Part& part, uint64_t column_size = 1) {
  return {part.tensor, part.first, part.count, column_size};
}

using CodesOfChunks = std::vector<std::vector<uint8_t>>;

// Splits the device's output into the codes of each chunk; sizes[c] is the size of chunk c in
// bytes.
inline CodesOfChunks SplitIntoChunks(const std::vector<uint8_t>& bytes, const Tiling& tiling,
                                     const std::vector<uint64_t>& sizes) {
  CodesOfChunks chunks;
  for (size_t c = 0; c < sizes.size(); ++c) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(tiling.chunks[c].code_begin);
    chunks.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(sizes[c]));
  }
  return chunks;
}

// The codes of several parts, one after the other, and the byte range of each. `bytes` is padded to
// a multiple of 4; `size` is its length without the padding.
struct CodeRow {
  void AppendCode(const std::vector<uint8_t>& code) {
    ranges.push_back({size, code.size()});
    bytes.resize(size);
    bytes.insert(bytes.end(), code.begin(), code.end());
    size = bytes.size();
    bytes.resize((size + 3) / 4 * 4);
  }
  std::vector<uint8_t> bytes;
  std::vector<CodeRange> ranges;
  size_t size = 0;
};

// Overwrites every seventh value with a zero, a denormal, or a very small or large number.
inline void OverwriteWithOddValues(std::vector<float>* values) {
  const float odd_values[] = {0.f, -0.f, 1e-45f, -1e-40f, 3e38f, -3.4e38f, 1e-20f, -1e20f};
  for (size_t i = 0; i < values->size(); i += 7) (*values)[i] = odd_values[i / 7 % 8];
}

}  // namespace tern::kernels
