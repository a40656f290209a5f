#include <cuda_runtime.h>

#include "kernels/nn/elements.cuh"
#include "kernels/nn/weights.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kWeightThreads = 128;
constexpr uint32_t kWeightsOfThread = 8;
constexpr uint32_t kWeightsOfBlock = kWeightThreads * kWeightsOfThread;

__device__ bool HasOneLayout(const WeightArray& array) {
  return array.taps == 1 && array.kernel_inputs == array.inputs;
}

// Returns the parameter of the weight with index i in the kernel.
__device__ float ParameterOf(uint32_t i, const WeightArray& array) {
  if (HasOneLayout(array)) return array.parameters[i];
  const uint32_t row = i / array.kernel_inputs, output = row / array.taps;
  const uint32_t input = i - row * array.kernel_inputs, tap = row - output * array.taps;
  return input < array.inputs ? array.parameters[(output * array.inputs + input) * array.taps + tap]
                              : 0;
}

// Returns the index in the kernel of the weight with index i in the parameters.
__device__ uint32_t KernelIndexOf(uint32_t i, const WeightArray& array) {
  if (HasOneLayout(array)) return i;
  const uint32_t row = i / array.taps, output = row / array.inputs;
  const uint32_t tap = i - row * array.taps, input = row - output * array.inputs;
  return (output * array.taps + tap) * array.kernel_inputs + input;
}

// Calls store(array, i, load(array, i)) for each weight i of this thread block that is less than
// count(array). Neighbouring threads get neighbouring weights. A thread loads all its weights
// before it stores the first, so that the latencies of the loads overlap.
template <typename Count, typename LoadWeight, typename StoreWeight>
__device__ void ConvertWeightsOfBlock(const WeightTable& table, const Count& count,
                                      const LoadWeight& load, const StoreWeight& store) {
  const WeightBlock block = table.blocks[blockIdx.x];
  const WeightArray array = table.arrays[block.array];
  const uint32_t all = count(array), rest = block.first < all ? all - block.first : 0;
  float values[kWeightsOfThread];
#pragma unroll
  for (uint32_t k = 0; k < kWeightsOfThread; ++k) {
    const uint32_t offset = k * kWeightThreads + threadIdx.x;
    if (offset < rest) values[k] = load(array, block.first + offset);
  }
#pragma unroll
  for (uint32_t k = 0; k < kWeightsOfThread; ++k) {
    const uint32_t offset = k * kWeightThreads + threadIdx.x;
    if (offset < rest) store(array, block.first + offset, values[k]);
  }
}

// Both kernels store neighbouring weights and load scattered ones, because caches help loads more.
// With at most 32 registers, as many threads of ToKernels are resident as a multiprocessor of any
// GPU can have, which launch bounds could only say of GPUs with the same number of them.
template <typename T>
__global__ void __maxnreg__(32) ToKernels(WeightTable table) {
  ConvertWeightsOfBlock(
      table, [](const WeightArray& array) { return array.KernelCount(); },
      [](const WeightArray& array, uint32_t i) { return ParameterOf(i, array); },
      [](const WeightArray& array, uint32_t i, float value) {
        static_cast<T*>(array.kernel)[i] = FromFloat<T>(value);
      });
}

template <typename T>
__global__ void __launch_bounds__(kWeightThreads)
    FromKernels(WeightTable table, const DeviceStep* step) {
  const float inverse_scale = step->inverse_scale;
  ConvertWeightsOfBlock(
      table, [](const WeightArray& array) { return array.ParameterCount(); },
      [](const WeightArray& array, uint32_t i) {
        return AsFloat(static_cast<const T*>(array.kernel)[KernelIndexOf(i, array)]);
      },
      [inverse_scale](const WeightArray& array, uint32_t i, float value) {
        array.parameters[i] = value * inverse_scale;
      });
}

}  // namespace

std::vector<WeightBlock> BlocksOfWeights(const std::vector<WeightArray>& arrays) {
  std::vector<WeightBlock> blocks;
  for (uint32_t a = 0; a < arrays.size(); ++a) {
    for (uint64_t first = 0; first < arrays[a].KernelCount(); first += kWeightsOfBlock)
      blocks.push_back({a, static_cast<uint32_t>(first)});
  }
  return blocks;
}

int ToKernelsOnDevice(DeviceStream stream, DeviceType type, const WeightTable& table) {
  return DispatchType(type, [&]<typename T>() {
    return Launch(ToKernels<T>, table.num_blocks, kWeightThreads, stream, table);
  });
}

int FromKernelsOnDevice(DeviceStream stream, DeviceType type, const WeightTable& table,
                        const DeviceStep* step) {
  return DispatchType(type, [&]<typename T>() {
    return Launch(FromKernels<T>, table.num_blocks, kWeightThreads, stream, table, step);
  });
}

}  // namespace tern::kernels
