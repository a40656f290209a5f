// Layers that process an array row by row, on a GPU: standardization of images, and the loss.
#pragma once

#include <cstdint>

#include "kernels/nn/device_images.h"

namespace tern::kernels {

// Standardizes each of `images` rows of n elements to mean 0 and deviation 1:
// y = (x - mean) * factor, with factor = 1 / max(deviation, 1 / sqrt(n)). The forward pass writes
// the factor of row i to scale[i], and the backward pass reads it.
[[nodiscard]] int StandardizeForwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                             uint32_t images, uint64_t n, void* y, float* scale);
[[nodiscard]] int StandardizeBackwardOnDevice(DeviceStream stream, DeviceType type, const void* y,
                                              const void* dy, const float* scale, uint32_t images,
                                              uint64_t n, void* dx);

// The result of one row of scores.
struct DeviceLoss {
  double loss;
  // The number of classes with a higher score, or with an equal score and a lower number. If a
  // score is NaN, the loss is NaN, and the rank means nothing.
  uint32_t label_rank;
  uint32_t unused;
};
// Computes the softmax cross-entropy loss of each of `rows` samples, with label smoothing
// `smoothing` (worker/engine/softmax_loss.h). `scores` are [rows, classes]. `gradient` (may be
// null) becomes the gradient of the mean loss over the step->used valid samples, times
// step->loss_scale.
[[nodiscard]] int SoftmaxLossOnDevice(DeviceStream stream, DeviceType type, const void* scores,
                                      const uint32_t* labels, uint32_t rows, uint32_t classes,
                                      float smoothing, const DeviceStep* step, DeviceLoss* losses,
                                      void* gradient);

}  // namespace tern::kernels
