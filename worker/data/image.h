// A decoded image, and the limits on the sizes of images.
#pragma once

#include <cstdint>
#include <vector>

namespace tern::data {

// The most pixels of a decoded image, and the most bytes of an encoded one.
inline constexpr uint64_t kMaxPixels = uint64_t{1} << 26;
inline constexpr uint64_t kMaxEncodedBytes = uint64_t{1} << 28;

struct Image {
  uint32_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;  // [C, H, W]

  // The number of pixels of one channel.
  uint64_t plane() const { return uint64_t{height} * width; }
  // Changes the size. Keeps the values at the beginning of `pixels`; new values are 0.
  void Resize(uint32_t c, uint32_t h, uint32_t w) {
    channels = c;
    height = h;
    width = w;
    pixels.resize(c * plane());
  }
};

}  // namespace tern::data
