// One decoded image.
#pragma once

#include <cstdint>
#include <vector>

namespace tern::data {

// The most pixels of an image that is decoded, and the most bytes of one that is read.
inline constexpr uint64_t kMaxPixels = uint64_t{1} << 26;
inline constexpr uint64_t kMaxEncodedBytes = uint64_t{1} << 28;

struct Image {
  uint32_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;  // [C, H, W]

  uint64_t plane() const { return uint64_t{height} * width; }
  // The pixels are those of before where they are as many, else anything.
  void Resize(uint32_t c, uint32_t h, uint32_t w) {
    channels = c;
    height = h;
    width = w;
    pixels.resize(c * plane());
  }
};

}  // namespace tern::data
