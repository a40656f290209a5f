#include "common/codec/bit_pack.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tern::codec {
namespace {

TEST(BitPack, EveryWidthRoundTripsAtEveryOffset) {
  std::mt19937 random(5);
  for (int width = 0; width <= kMaxPackedBits; ++width) {
    std::vector<uint32_t> values(71);
    for (uint32_t& v : values) v = random() & ((uint32_t{1} << width) - 1);
    std::vector<uint8_t> packed((71 * width + 7) / 8);
    BitWriter writer(packed.data());
    writer.AppendValues(std::span(values).first(3), width);
    writer.AppendValues(std::span(values).subspan(3), width);
    writer.Finish();
    for (size_t first = 0; first <= values.size(); ++first) {
      std::vector<uint32_t> unpacked(values.size() - first, 77);
      UnpackBits(packed, first * width, width, unpacked);
      ASSERT_EQ(unpacked, std::vector<uint32_t>(values.begin() + first, values.end())) << width;
    }
  }
}

}  // namespace
}  // namespace tern::codec
