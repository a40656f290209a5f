// How the engine's layers see images on a GPU, channels last: [n, h, w, c]. Each layer's kernels
// are declared beside its CPU form. Sums are taken in an order that does not depend on the device:
// two runs give the same bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/device/host_device.h"
#include "kernels/device/tiling.h"

namespace tern::kernels {

// How images and their gradients are stored. Arithmetic is always in float; parameters, their
// gradients and statistics are floats.
enum class DeviceType : uint8_t { kFloat, kBfloat, kHalf };
inline size_t BytesOf(DeviceType type) { return type == DeviceType::kFloat ? 4 : 2; }

struct PixelDraws;

// The values that change from step to step. They are in device memory, so that the launches stay
// the same (CUDA graphs).
struct DeviceStep {
  uint64_t step = 0;  // selects the draws of dropout
  uint32_t used = 0;  // number of valid samples in the batch
  // The batch, if images come as bytes (pixels.h).
  const uint8_t* bytes = nullptr;
  const PixelDraws* draws = nullptr;
  // Gradients of images are multiplied by loss_scale; gradients of parameters are scaled back.
  float loss_scale = 1, inverse_scale = 1;
};

struct DeviceImages {
  uint32_t n = 0, h = 0, w = 0, c = 0;
  TERN_HOST_DEVICE uint64_t pixels() const { return uint64_t{n} * h * w; }
  TERN_HOST_DEVICE uint64_t size() const { return pixels() * c; }
};

// One axis of a window; `pad` zeros before the image.
struct DeviceAxis {
  uint32_t kernel = 1, stride = 1, dilation = 1, pad = 0;
};
struct DeviceWindow {
  DeviceAxis rows, columns;
};

// A window that slides over `in` and makes `out`.
struct DeviceSlide {
  DeviceImages in, out;
  DeviceWindow window;
};

// The number of partial sums of a column of `rows` elements.
constexpr uint32_t PartialsOf(uint64_t rows) {
  constexpr uint64_t kRows = 128, kMost = 512;
  return static_cast<uint32_t>(std::clamp<uint64_t>(rows / kRows, 1, kMost));
}

}  // namespace tern::kernels
