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
      Unpack({packed, first * width, width, unpacked.size()}, unpacked);
      ASSERT_EQ(unpacked, std::vector<uint32_t>(values.begin() + first, values.end())) << width;
    }
  }
}

// A row of numbers that are all near the searched one, and differ from it in one bit or by one.
TEST(BitPack, FindsANumberOfEveryWidthAtEveryPlace) {
  std::mt19937 random(6);
  for (int width = 1; width <= kMaxPackedBits; ++width) {
    const uint32_t limit = uint32_t{1} << width;
    for (const uint32_t number : {uint32_t{0}, limit / 2, limit - 1}) {
      std::vector<uint32_t> values(150);
      for (uint32_t& v : values) {
        v = (random() % 2 == 0 ? number ^ uint32_t{1} << random() % static_cast<uint32_t>(width)
                               : number + 1) %
            limit;
      }
      for (size_t place = 0; place <= values.size(); ++place) {
        std::vector<uint32_t> row = values;
        if (place < row.size()) row[place] = number;
        std::vector<uint8_t> packed((row.size() * width + 7) / 8);
        BitWriter writer(packed.data());
        writer.AppendValues(row, width);
        writer.Finish();
        for (const size_t first : {0, 1, 8, 64}) {
          const size_t count = row.size() - first - 3;
          ASSERT_EQ(Contains({packed, first * width, width, count}, number),
                    place >= first && place < first + count)
              << width << ", " << number << ", " << place << ", " << first;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tern::codec
