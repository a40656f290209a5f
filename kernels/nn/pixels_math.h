// The arithmetic of pixels.h on one value, for CPU and GPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/device/host_device.h"
#include "kernels/nn/pixels.h"

namespace tern::kernels {

// Sums are added in 8 lanes, that is, partial sums: lane l adds elements l, l + 8, ... in this
// order. Then the lanes are added.
constexpr uint32_t kPixelLanes = 8;

TERN_HOST_DEVICE float ScalePixel(const ChannelScale& s, float x) {
  return (x / 255.0f * s.scale + s.offset - s.mean) / s.deviation;
}

TERN_HOST_DEVICE float BrightenPixel(float x, float brightness_shift) {
  const float sum = x + brightness_shift;
  return sum < 0.f ? 0.f : (sum > 255.f ? 255.f : sum);
}

TERN_HOST_DEVICE float ChangeContrast(float x, float mean, float contrast) {
  return (x - mean) * contrast + mean;
}

// The factor that standardizes n values: 1 / deviation, at most sqrt(n). `squares` is the sum of
// the squares of their differences from the mean.
TERN_HOST_DEVICE float StandardFactor(double squares, double n) {
  const double deviation = sqrt(squares / n), min_deviation = 1 / sqrt(n);
  return static_cast<float>(1 / (deviation < min_deviation ? min_deviation : deviation));
}

TERN_HOST_DEVICE double SumOfLanes(const double* lanes) {
  double sum = 0;
  for (uint32_t lane = 0; lane < kPixelLanes; ++lane) sum += lanes[lane];
  return sum;
}

}  // namespace tern::kernels
