// Tests of the conversions of weights on a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/nn/weights.h"
#include "tests/kernels/device/device_array.h"

namespace tern::kernels {
namespace {

// The weights of one layer: `outputs` times `inputs` times `taps`; in the kernel `kernel_inputs` in
// place of `inputs`.
struct LayerSize {
  uint32_t outputs, inputs, taps, kernel_inputs;
  uint32_t count() const { return outputs * inputs * taps; }
  uint32_t kernel_count() const { return outputs * kernel_inputs * taps; }
};
// A bias, dense weights of several thread blocks, windows, of which one has a single input, and
// kernels with more inputs than the parameters.
const std::vector<LayerSize> kLayers = {{5, 1, 1, 1},  {70, 61, 1, 61}, {40, 17, 9, 17},
                                        {3, 1, 25, 1}, {40, 3, 49, 8},  {9, 3, 1, 4}};

// Calls visit(i, k) for each weight of a layer: its indices in the parameters and in the kernel.
template <typename Visit>
void ForEachWeight(const LayerSize& layer, const Visit& visit) {
  for (uint32_t o = 0; o < layer.outputs; ++o)
    for (uint32_t i = 0; i < layer.inputs; ++i)
      for (uint32_t t = 0; t < layer.taps; ++t)
        visit((o * layer.inputs + i) * layer.taps + t,
              (o * layer.taps + t) * layer.kernel_inputs + i);
}

TEST(DeviceWeights, AreConvertedThereAndBackInOneLaunch) {
  if (!HasDevice()) GTEST_SKIP() << "there is no GPU here";
  std::vector<std::unique_ptr<DeviceArray<float>>> parameters, kernels;
  std::vector<WeightArray> arrays;
  for (const LayerSize& layer : kLayers) {
    std::vector<float> values(layer.count());
    for (uint32_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
    parameters.push_back(std::make_unique<DeviceArray<float>>(values));
    kernels.push_back(
        std::make_unique<DeviceArray<float>>(std::vector<float>(layer.kernel_count(), -1)));
    arrays.push_back({parameters.back()->data(), kernels.back()->data(), layer.outputs,
                      layer.inputs, layer.taps, layer.kernel_inputs});
  }
  const std::vector<WeightBlock> blocks = BlocksOfWeights(arrays);
  DeviceArray<WeightArray> arrays_on_device(arrays);
  DeviceArray<WeightBlock> blocks_on_device(blocks);
  const WeightTable table{arrays_on_device.data(), blocks_on_device.data(),
                          static_cast<uint32_t>(blocks.size())};
  ASSERT_GT(blocks.size(), arrays.size()) << "no layer has several blocks";
  ASSERT_EQ(ToKernelsOnDevice(nullptr, DeviceType::kFloat, table), 0);
  DeviceStep step;
  step.inverse_scale = 0.5f;
  DeviceArray<DeviceStep> step_on_device(std::vector<DeviceStep>{step});
  std::vector<std::vector<float>> kernel_values;
  for (const auto& kernel : kernels) kernel_values.push_back(kernel->Read());
  ASSERT_EQ(FromKernelsOnDevice(nullptr, DeviceType::kFloat, table, step_on_device.data()), 0);
  for (size_t n = 0; n < kLayers.size(); ++n) {
    const std::vector<float> scaled = parameters[n]->Read();
    EXPECT_EQ(std::count(kernel_values[n].begin(), kernel_values[n].end(), 0.f),
              kLayers[n].kernel_count() - kLayers[n].count())
        << "layer " << n;
    ForEachWeight(kLayers[n], [&](uint32_t i, uint32_t k) {
      EXPECT_EQ(kernel_values[n][k], static_cast<float>(i + 1)) << "layer " << n << ", " << i;
      EXPECT_EQ(scaled[i], 0.5f * static_cast<float>(i + 1)) << "layer " << n << ", " << i;
    });
  }
}

}  // namespace
}  // namespace tern::kernels
