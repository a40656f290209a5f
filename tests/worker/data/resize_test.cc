#include "worker/data/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/worker/data/image_files.h"

namespace tern::data {
namespace {

// Resizes as defined: with a triangle filter, widened when the image shrinks; in double precision.
Image ResizeByDefinition(const Image& source, const Box& box, uint32_t height, uint32_t width) {
  Image result;
  result.Resize(source.channels, height, width);
  const auto weight_of = [](uint32_t i, uint32_t result_side, uint32_t source_side, uint32_t x) {
    const double scale = static_cast<double>(source_side) / result_side;
    return std::max(0.0, 1 - std::abs(x + 0.5 - (i + 0.5) * scale) / std::max(1.0, scale));
  };
  for (uint32_t c = 0; c < source.channels; ++c) {
    for (uint32_t i = 0; i < height; ++i) {
      for (uint32_t j = 0; j < width; ++j) {
        double sum = 0, weight_sum = 0;
        for (uint32_t y = 0; y < box.height; ++y) {
          for (uint32_t x = 0; x < box.width; ++x) {
            const double w =
                weight_of(i, height, box.height, y) * weight_of(j, width, box.width, x);
            sum += w * source.pixels[(uint64_t{c} * source.height + box.top + y) * source.width +
                                     box.left + x];
            weight_sum += w;
          }
        }
        result.pixels[(uint64_t{c} * height + i) * width + j] =
            static_cast<uint8_t>(std::lround(sum / weight_sum));
      }
    }
  }
  return result;
}

TEST(ResizeBox, MatchesTheDefinition) {
  const Image image = MakePicture(3, 23, 31);
  for (const Box& box : {Box{0, 0, 23, 31}, Box{3, 5, 11, 9}, Box{22, 30, 1, 1}}) {
    for (const auto& [height, width] : {std::pair{23u, 31u}, {7u, 5u}, {40u, 64u}, {1u, 1u}}) {
      Image resized;
      ResizeBox(image, box, height, width, &resized);
      EXPECT_LE(LargestDifference(resized, ResizeByDefinition(image, box, height, width)), 1)
          << box.height << " x " << box.width << " to " << height << " x " << width;
    }
  }
}

TEST(ResizeBox, SameSizeChangesNothing) {
  const Image image = MakePicture(3, 23, 31);
  Image resized;
  ResizeBox(image, {0, 0, 23, 31}, 23, 31, &resized);
  EXPECT_EQ(resized.pixels, image.pixels);
}

// A row of 8 pixels is resized to 4 pixels, and a row of 4 pixels to 8. The expected values are
// those of PIL 9.4.0's Image.resize with BILINEAR.
TEST(ResizeBox, MatchesPil) {
  Image row, resized;
  row.Resize(1, 1, 8);
  row.pixels = {0, 10, 200, 30, 90, 250, 7, 128};
  ResizeBox(row, {0, 0, 1, 8}, 1, 4, &resized);
  EXPECT_EQ(resized.pixels, (std::vector<uint8_t>{33, 99, 132, 94}));
  row.Resize(1, 1, 4);
  row.pixels = {0, 100, 30, 255};
  ResizeBox(row, {0, 0, 1, 4}, 1, 8, &resized);
  EXPECT_EQ(resized.pixels, (std::vector<uint8_t>{0, 25, 75, 83, 48, 86, 199, 255}));
}

}  // namespace
}  // namespace tern::data
