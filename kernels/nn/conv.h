// Convolutions on a GPU in plain loops, for shapes for which no library has a fast kernel; the sums
// of their channels for a batch norm; and the gradients of all convolutions' biases. Images are
// [n, h, w, c] (device_images.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/nn/column_sums.h"
#include "kernels/nn/device_images.h"

namespace tern::kernels {

// Direct convolution with a bias (may be null), and the gradients of its input and of its weights.
// Weights and their gradients are kernels in the sense of weights.h.
[[nodiscard]] int ConvForwardOnDevice(DeviceStream stream, DeviceType type,
                                      const DeviceSlide& slide, uint32_t groups, const void* x,
                                      const void* weight, const void* bias, void* y);
[[nodiscard]] int ConvBackwardDataOnDevice(DeviceStream stream, DeviceType type,
                                           const DeviceSlide& slide, uint32_t groups,
                                           const void* dy, const void* weight, void* dx);
[[nodiscard]] int ConvBackwardWeightsOnDevice(DeviceStream stream, DeviceType type,
                                              const DeviceSlide& slide, uint32_t groups,
                                              const void* x, const void* dy, void* weight_gradient);

// Sets sums[c] to the sum of x[row, c] over all rows, divided by the loss scale, which is the
// gradient of a bias.
[[nodiscard]] int ColumnSumsOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                     uint64_t rows, uint32_t columns, const DeviceStep* step,
                                     const ColumnWorkspace& workspace, float* sums);

// Sets sums[c] to the sum of x[row, c] over all rows, and sums[columns + c] to the sum of its
// square. Adds up to 16 rows in float, and these sums in double. `workspace` has
// ColumnWorkspaceBytes bytes, which need not be initialized.
[[nodiscard]] int ColumnMomentsOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                        uint64_t rows, uint32_t columns, void* workspace,
                                        float* sums);

}  // namespace tern::kernels
