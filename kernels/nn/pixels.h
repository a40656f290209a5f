// Converts the bytes of images, which are already decoded and cut to the size of the net's input,
// to the floats of the net's input. Images can be mirrored, changed in brightness and contrast,
// normalized and standardized. CPU and GPU give the same bits: both use IEEE arithmetic, and add
// sums in double in the same order (pixels_math.h). C is the number of channels.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/nn/device_images.h"

namespace tern::kernels {

// A value x of a channel, in [0, 255], becomes (x / 255 * scale + offset - mean) / deviation.
struct ChannelScale {
  float scale = 1, offset = 0, mean = 0, deviation = 1;
};

// How all images of a job are converted.
struct PixelRule {
  std::vector<ChannelScale> channels;  // one per channel
  bool changes_colors = false;         // whether brightness and contrast change (PixelDraws)
  bool standardizes = false;           // whether each image finally gets mean 0 and deviation 1
};

// The random changes of one image.
struct PixelDraws {
  float brightness_shift = 0;  // added to each value; the sum is clamped to [0, 255]
  float contrast = 1;  // then multiplies the difference of each value from the mean of its channel
  uint32_t is_mirrored = 0;  // not 0: left and right are exchanged
};

// Converts images on a CPU. Can be used by several threads at a time.
class PixelTables {
 public:
  explicit PixelTables(PixelRule rule);
  const PixelRule& rule() const { return rule_; }
  // Converts one image; `bytes` and `out` are both [C, height, width].
  void ToFloats(const uint8_t* bytes, uint32_t height, uint32_t width, const PixelDraws& draws,
                float* out) const;

 private:
  // Changes brightness and contrast, and applies the channels' scales.
  void ChangeColors(const PixelDraws& draws, uint64_t plane_size, float* out) const;

  PixelRule rule_;
  // For each channel and byte: the float before standardization or, if colors change, the value of
  // the byte.
  std::vector<std::array<float, 256>> tables_;
};

// A PixelRule on the device.
struct DevicePixelRule {
  const ChannelScale* channels = nullptr;  // one per channel
  bool changes_colors = false, standardizes = false;
};

// Converts the batch step->bytes, [n, c, h, w], with the changes step->draws, [n], to y, [n, h, w,
// y_channels] of the given type. y_channels is c or more; the channels after the first c are 0.
// `moments` is memory for intermediate results, (c + 2) * n numbers. One
// launch, or two if the rule changes colors or standardizes.
[[nodiscard]] int PixelsToImagesOnDevice(DeviceStream stream, const DeviceStep* step,
                                         const DeviceImages& images, const DevicePixelRule& rule,
                                         float* moments, uint32_t y_channels, DeviceType type,
                                         void* y);

}  // namespace tern::kernels
