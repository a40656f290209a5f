// Layers that work row by row, on a GPU.
#pragma once

#include <cstdint>

#include "kernels/nn/device_images.h"

namespace tern::kernels {

// Standardizes each of `images` rows of n elements to mean 0 and deviation 1 (net.proto). scale[i]:
// the factor applied to row i.
[[nodiscard]] int StandardizeForwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                             uint32_t images, uint64_t n, void* y, float* scale);
[[nodiscard]] int StandardizeBackwardOnDevice(DeviceStream stream, DeviceType type, const void* y,
                                              const void* dy, const float* scale, uint32_t images,
                                              uint64_t n, void* dx);

// The result of one row of scores.
struct DeviceLoss {
  double loss;
  uint32_t label_rank;  // how many scores rank above the label's
  uint32_t unused;
};
// softmax_loss of worker/engine/softmax_loss.h, row by row. `gradient` is that of the loss times
// its scale; it may be null.
[[nodiscard]] int SoftmaxLossOnDevice(DeviceStream stream, DeviceType type, const void* scores,
                                      const uint32_t* labels, uint32_t rows, uint32_t classes,
                                      float smoothing, const DeviceStep* step, DeviceLoss* losses,
                                      void* gradient);

}  // namespace tern::kernels
