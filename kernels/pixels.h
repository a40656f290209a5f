// From the bytes of decoded images, cut to the size that a net takes, to the numbers that it sees:
// mirrored, in other colors, normalized, standardized. The CPU's floats and a GPU's are the same
// bits: the arithmetic is IEEE's on both, and sums, which contrast and standardization are made of,
// are in double, eight lanes and then the lanes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/device_layers.h"

namespace tern::kernels {

// What one channel's x, from 0 to 255, becomes: (x / 255 * scale + offset - mean) / deviation.
struct ChannelScale {
  float scale = 1, offset = 0, mean = 0, deviation = 1;
};

// What is done with all images of a job.
struct PixelRule {
  std::vector<ChannelScale> channels;  // [C]
  bool colors = false;                 // brighter and contrast count
  bool standardize = false;            // the whole image, at last
};

// What was drawn for one image.
struct PixelDraws {
  float brighter = 0;  // added to each x, which stays from 0 to 255
  float contrast = 1;  // then times the distance from the channel's mean
  uint32_t mirrored = 0;
};

// The CPU's form. Any thread.
class PixelTables {
 public:
  explicit PixelTables(PixelRule rule);
  const PixelRule& rule() const { return rule_; }
  // One image, [C, height, width] both.
  void ToFloats(const uint8_t* bytes, uint32_t height, uint32_t width, const PixelDraws& draws,
                float* out) const;

 private:
  void Color(const PixelDraws& draws, uint64_t plane, float* out) const;

  PixelRule rule_;
  std::vector<std::array<float, 256>> tables_;  // [C], of a byte: what the net sees, or where
                                                // colors change itself
};

// A PixelRule on the device.
struct DevicePixelRule {
  const ChannelScale* channels = nullptr;  // [C]
  bool colors = false, standardize = false;
};

// The batch step->bytes [n, c, h, w] with step->draws [n] to y [n, h, w, c] of the type.
// `moments`: room for (c + 2) * n. One launch, or two where there are sums.
[[nodiscard]] int PixelsToImagesOnDevice(DeviceStream stream, const DeviceStep* step,
                                         const DeviceImages& images, const DevicePixelRule& rule,
                                         float* moments, DeviceType type, void* y);

}  // namespace tern::kernels
