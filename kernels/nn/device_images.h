// Types that the GPU functions of all layers use, and pooling on a CPU. Images on a GPU are
// [n, h, w, c]: n images of h rows and w columns, with the c channels of a pixel next to each
// other. All sums are added in an order that does not depend on the device, so that two runs give
// the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/host_device.h"
#include "kernels/device/tiling.h"

namespace tern::kernels {

// How images and their gradients are stored. Arithmetic is in float or double; parameters, their
// gradients and statistics are floats.
enum class DeviceType : uint8_t { kFloat, kBfloat, kHalf };
inline size_t BytesOf(DeviceType type) { return type == DeviceType::kFloat ? 4 : 2; }

struct PixelDraws;

// The values that change from step to step. They are in device memory, so that the arguments of all
// launches stay the same, and a CUDA graph can repeat the launches.
struct DeviceStep {
  uint64_t step = 0;  // number of the step; selects the random numbers of dropout
  uint32_t used = 0;  // number of valid samples in the batch
  // The images of the batch and their augmentation, if images come as bytes (pixels.h).
  const uint8_t* bytes = nullptr;
  const PixelDraws* draws = nullptr;
  // The loss and the gradients of images are multiplied by loss_scale; gradients of parameters are
  // multiplied by inverse_scale = 1 / loss_scale.
  float loss_scale = 1, inverse_scale = 1;
};

// The shape of a batch of images.
struct DeviceImages {
  uint32_t n = 0, h = 0, w = 0, c = 0;
  TERN_HOST_DEVICE uint64_t pixels() const { return uint64_t{n} * h * w; }
  TERN_HOST_DEVICE uint64_t size() const { return pixels() * c; }
};

// One axis of the window of a convolution or pooling: the size of the window, its stride and
// dilation, and the number of zeros before the image.
struct DeviceAxis {
  uint32_t kernel = 1, stride = 1, dilation = 1, pad = 0;
};
struct DeviceWindow {
  DeviceAxis rows, columns;
};

// A window that slides over the images `in` and produces the images `out`.
struct DeviceSlide {
  DeviceImages in, out;
  DeviceWindow window;
};

}  // namespace tern::kernels
