// A DeviceModel in host memory, for tests of the classes that use a DeviceModel. It copies, but
// computes nothing: a test sets the results of its functions.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/update/local_step_math.h"
#include "kernels/update/optimizer_math.h"
#include "worker/device/device_model.h"

namespace tern::device {

class MemoryAsDevice : public DeviceModel, public DeviceCodes {
 public:
  explicit MemoryAsDevice(size_t elements) : weights(elements), memory_values(elements) {}

  std::vector<float> weights;
  std::vector<float> memory_values;           // what the codec keeps from round to round: one array
  Status copy_status;                         // returned by CopyToHost and CopyMemoryToHost
  std::vector<kernels::Stats> stats;          // returned by StatsOfCodedValues
  std::vector<kernels::Stats> prepare_stats;  // returned by Prepare
  std::vector<float> counted_magnitudes;      // the argument of the last CountAtLeast
  Result<Bytes> code = Bytes();               // returned by Encode for every chunk

  DeviceCodes& codes() override { return *this; }
  Status CopyToDevice(const HostCopies& from) override {
    weights.assign(from.weights, from.weights + weights.size());
    return Ok();
  }
  Status CopyToHost(const HostCopies& to) override {
    if (copy_status.ok()) std::copy(weights.begin(), weights.end(), to.weights);
    return copy_status;
  }
  Status AddDecay(uint64_t, uint64_t, float) override { return Ok(); }
  Result<double> SumOfSquaredGradients() override { return 0; }
  Status ScaleGradients(float) override { return Ok(); }
  Status RetainGradients(uint64_t, uint32_t) override { return Ok(); }
  Status CopyWeights(LocalArray) override { return Ok(); }
  Status CopyLocalToDevice(LocalArray, const float*) override { return Ok(); }
  Status CopyLocalToHost(LocalArray, float*) override { return Ok(); }
  Status UpdateLocalWeights(const kernels::LocalStep&,
                            std::span<const kernels::TensorRates>) override {
    return Ok();
  }
  Status Update(uint32_t, const Sums&, const kernels::UpdateStep&,
                std::span<const kernels::TensorRates>) override {
    return Ok();
  }
  Bytes PlaceSum(const Bytes& sum) override { return sum; }
  Status ClearMeans(uint32_t) override { return Ok(); }
  Status DecodeMeans(uint32_t, const Sums&) override { return Ok(); }
  Result<std::vector<SquareSums>> SquareSumsOf(uint32_t, std::span<const float>) override {
    return std::vector<SquareSums>();
  }
  Status UpdateBucket(uint32_t, const kernels::UpdateStep&,
                      std::span<const kernels::TensorRates>) override {
    return Ok();
  }
  Status UpdateAverage(uint64_t, uint64_t, float, Weights) override { return Ok(); }
  Status CheckSums(SumCheck) override { return Ok(); }
  Result<std::vector<kernels::Stats>> Prepare(uint32_t, const kernels::NoiseKey&) override {
    return prepare_stats;
  }
  Result<std::vector<kernels::Stats>> StatsOfCodedValues(uint64_t, uint32_t) override {
    return stats;
  }
  Result<uint64_t> CountAtLeast(uint64_t, uint32_t, std::span<const float> magnitudes) override {
    counted_magnitudes.assign(magnitudes.begin(), magnitudes.end());
    return uint64_t{7};
  }
  Status CopyGradientsToHost(uint64_t, uint64_t, std::span<float>) override { return Ok(); }
  Result<Bytes> Encode(uint32_t, std::span<const kernels::TernaryScale>,
                       const kernels::NoiseKey&) override {
    return code;
  }
  Status CopyMemoryToHost(uint64_t begin, std::span<const std::span<float>> to) override {
    if (copy_status.ok())
      std::copy_n(memory_values.begin() + SignedOffset(begin), to[0].size(), to[0].begin());
    return copy_status;
  }
  Status CopyMemoryToDevice(uint64_t begin, std::span<const std::span<float>> from) override {
    std::copy(from[0].begin(), from[0].end(), memory_values.begin() + SignedOffset(begin));
    return Ok();
  }
  Status ResetMemory() override {
    std::fill(memory_values.begin(), memory_values.end(), 0.f);
    return Ok();
  }

 private:
  static std::ptrdiff_t SignedOffset(uint64_t begin) { return static_cast<std::ptrdiff_t>(begin); }
};

}  // namespace tern::device
