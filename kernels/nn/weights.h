// Conversions of many layers' weights, and of their gradients, in one launch. The parameters are
// floats in the layout [outputs, inputs, taps]; convolutions take kernels in the type of the images
// in the layout [outputs, taps, inputs]. `outputs` is the number of output channels, `inputs` the
// number of input channels of a group, and `taps` the number of elements of the window. A bias is
// an array with one input and one tap. A kernel may have more inputs than the parameters; their
// weights are 0.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device/host_device.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/device_images.h"

namespace tern::kernels {

// The weights of one layer, in device memory.
struct WeightArray {
  float* parameters = nullptr;  // The weights or their gradient, in the layout of the parameters.
  void* kernel = nullptr;       // The same for a convolution.
  uint32_t outputs = 0, inputs = 1, taps = 1;
  uint32_t kernel_inputs = 1;  // `inputs`, or more.

  TERN_HOST_DEVICE uint32_t ParameterCount() const { return outputs * inputs * taps; }
  TERN_HOST_DEVICE uint32_t KernelCount() const { return outputs * kernel_inputs * taps; }
};

// The weights of `array` that one thread block converts; `first` is the index of the first, in the
// kernel or in the parameters.
struct WeightBlock {
  uint32_t array = 0, first = 0;
};
// Returns the blocks that together convert all weights of the arrays.
std::vector<WeightBlock> BlocksOfWeights(const std::vector<WeightArray>& arrays);

// The arrays and their blocks, in device memory.
struct WeightTable {
  const WeightArray* arrays = nullptr;
  const WeightBlock* blocks = nullptr;
  uint32_t num_blocks = 0;
};

// Sets the kernels of all arrays, in `type`, to their parameters. Returns a cudaError_t.
[[nodiscard]] int ToKernelsOnDevice(DeviceStream stream, DeviceType type, const WeightTable& table);
// Sets the parameters of all arrays to their kernels times step->inverse_scale. Returns a
// cudaError_t.
[[nodiscard]] int FromKernelsOnDevice(DeviceStream stream, DeviceType type,
                                      const WeightTable& table, const DeviceStep* step);

}  // namespace tern::kernels
