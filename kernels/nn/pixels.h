// Turns the bytes of decoded images, cut to the net's input size, into the net's input: mirrored,
// color-jittered, normalized, standardized. CPU and GPU give the same bits: both use IEEE
// arithmetic, and the sums (for contrast and standardization) are in double, in eight lanes that
// are then added.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/nn/device_images.h"

namespace tern::kernels {

// A channel's x, in [0, 255], becomes (x / 255 * scale + offset - mean) / deviation.
struct ChannelScale {
  float scale = 1, offset = 0, mean = 0, deviation = 1;
};

// What is applied to all images of a job.
struct PixelRule {
  std::vector<ChannelScale> channels;  // [C]
  bool colors = false;                 // `brighter` and `contrast` are applied
  bool standardize = false;            // the whole image, as the last step
};

// The random draws of one image.
struct PixelDraws {
  float brighter = 0;  // added to each x, clamped to [0, 255]
  float contrast = 1;  // then multiplies the distance from the channel's mean
  uint32_t mirrored = 0;
};

// Converts images on a CPU. Any thread.
class PixelTables {
 public:
  explicit PixelTables(PixelRule rule);
  const PixelRule& rule() const { return rule_; }
  // Converts one image; `bytes` and `out` are both [C, height, width].
  void ToFloats(const uint8_t* bytes, uint32_t height, uint32_t width, const PixelDraws& draws,
                float* out) const;

 private:
  void Color(const PixelDraws& draws, uint64_t plane, float* out) const;

  PixelRule rule_;
  // [C], by byte: the net's input, or the byte's value if colors change.
  std::vector<std::array<float, 256>> tables_;
};

// A PixelRule on the device.
struct DevicePixelRule {
  const ChannelScale* channels = nullptr;  // [C]
  bool colors = false, standardize = false;
};

// Converts the batch step->bytes [n, c, h, w] with step->draws [n] to y [n, h, w, c] of the type.
// `moments`: workspace of (c + 2) * n. One launch, or two where sums are needed.
[[nodiscard]] int PixelsToImagesOnDevice(DeviceStream stream, const DeviceStep* step,
                                         const DeviceImages& images, const DevicePixelRule& rule,
                                         float* moments, DeviceType type, void* y);

}  // namespace tern::kernels
