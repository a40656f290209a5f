// Converts bytes to images (pixels.h) on a GPU. If the rule changes colors or standardizes, a first
// launch computes the means with one thread block per image. Sums are added in the same order as on
// a CPU: all threads of the block compute terms, and eight threads add the terms.
#include <cuda_runtime.h>

#include "kernels/nn/elements.cuh"
#include "kernels/nn/pixels.h"
#include "kernels/nn/pixels_math.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128, kTermsAtOnce = 2048;

// For each image: the means of its channels, then the mean and the factor of its standardization.
struct Moments {
  float* values;
  uint32_t channels;
  __device__ float* OfImage(uint32_t n) const { return values + uint64_t{n} * (channels + 2); }
};

// Reads the values of image n, mirrored if its PixelDraws says so.
struct Pixels {
  const uint8_t* bytes;
  PixelDraws draws;
  uint32_t plane_size, width;
  DevicePixelRule rule;
  const float* moments;

  __device__ Pixels(const DeviceStep& step, const DeviceImages& images,
                    const DevicePixelRule& pixel_rule, const Moments& all_moments, uint32_t n)
      : draws(step.draws[n]),
        plane_size(images.h * images.w),
        width(images.w),
        rule(pixel_rule),
        moments(all_moments.OfImage(n)) {
    bytes = step.bytes + uint64_t{n} * images.c * plane_size;
  }
  // The value of pixel i of channel c; its brightness is changed if the rule changes colors.
  __device__ float BrightenedPixel(uint32_t c, uint32_t i) const {
    const uint32_t x = i % width, source = draws.is_mirrored != 0 ? i - x + (width - 1 - x) : i;
    const float value = bytes[uint64_t{c} * plane_size + source];
    return rule.changes_colors ? BrightenPixel(value, draws.brightness_shift) : value;
  }
  // The value of pixel i of channel c before standardization.
  __device__ float Value(uint32_t c, uint32_t i) const {
    const float value = BrightenedPixel(c, i);
    return ScalePixel(rule.channels[c], rule.changes_colors
                                            ? ChangeContrast(value, moments[c], draws.contrast)
                                            : value);
  }
};

// Returns the sum of term(i) for all i < n, added in lanes (pixels_math.h), to all threads of a
// block, all of which must call this function. `terms` and `lanes` are shared memory of
// kTermsAtOnce and kPixelLanes elements.
template <typename Term>
__device__ double SumInLanes(uint32_t n, double* terms, double* lanes, const Term& term) {
  double lane_sum = 0;
  for (uint32_t begin = 0; begin < n; begin += kTermsAtOnce) {
    const uint32_t count = n - begin < kTermsAtOnce ? n - begin : kTermsAtOnce;
    __syncthreads();  // Waits until no thread reads the previous terms.
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) terms[i] = term(begin + i);
    __syncthreads();
    if (threadIdx.x >= kPixelLanes) continue;
    for (uint32_t i = threadIdx.x; i < count; i += kPixelLanes) lane_sum += terms[i];
  }
  if (threadIdx.x < kPixelLanes) lanes[threadIdx.x] = lane_sum;
  __syncthreads();
  return SumOfLanes(lanes);
}

// Computes the moments of each image.
__global__ void __launch_bounds__(kThreads)
    ComputeMoments(const DeviceStep* step, DeviceImages images, DevicePixelRule rule,
                   Moments all_moments) {
  __shared__ double terms[kTermsAtOnce], lanes[kPixelLanes];
  const auto sum_of = [&](uint32_t num_values, const auto& term) {
    return SumInLanes(num_values, terms, lanes, term);
  };
  const Pixels pixels(*step, images, rule, all_moments, blockIdx.x);
  float* image_moments = all_moments.OfImage(blockIdx.x);
  for (uint32_t c = 0; rule.changes_colors && c < images.c; ++c) {
    const double sum = sum_of(pixels.plane_size,
                              [&](uint32_t i) -> double { return pixels.BrightenedPixel(c, i); });
    if (threadIdx.x == 0) image_moments[c] = static_cast<float>(sum / pixels.plane_size);
  }
  if (!rule.standardizes) return;
  __syncthreads();
  const uint32_t num_values = images.c * pixels.plane_size;
  const auto value_at = [&](uint32_t i) -> double {
    return pixels.Value(i / pixels.plane_size, i % pixels.plane_size);
  };
  const double mean = sum_of(num_values, value_at) / num_values;
  const double squares =
      sum_of(num_values, [&](uint32_t i) { return (value_at(i) - mean) * (value_at(i) - mean); });
  if (threadIdx.x != 0) return;
  image_moments[images.c] = static_cast<float>(mean);
  image_moments[images.c + 1] = StandardFactor(squares, num_values);
}

// Converts one pixel of the batch, with all its channels.
template <typename T>
struct ToImages {
  const DeviceStep* step;
  DeviceImages images;
  DevicePixelRule rule;
  Moments moments;
  uint32_t y_channels;
  T* y;
  __device__ void operator()(uint64_t pixel) const {
    const uint32_t plane_size = images.h * images.w;
    const auto n = static_cast<uint32_t>(pixel / plane_size);
    const auto i = static_cast<uint32_t>(pixel % plane_size);
    const Pixels pixels(*step, images, rule, moments, n);
    for (uint32_t c = 0; c < images.c; ++c) {
      float value = pixels.Value(c, i);
      if (rule.standardizes)
        value = (value - pixels.moments[images.c]) * pixels.moments[images.c + 1];
      y[pixel * y_channels + c] = FromFloat<T>(value);
    }
    for (uint32_t c = images.c; c < y_channels; ++c) y[pixel * y_channels + c] = FromFloat<T>(0);
  }
};

}  // namespace

int PixelsToImagesOnDevice(DeviceStream stream, const DeviceStep* step, const DeviceImages& images,
                           const DevicePixelRule& rule, float* moments, uint32_t y_channels,
                           DeviceType type, void* y) {
  const Moments all_moments{moments, images.c};
  if (rule.changes_colors || rule.standardizes) {
    const int error =
        Launch(ComputeMoments, images.n, kThreads, stream, step, images, rule, all_moments);
    if (error != 0) return error;
  }
  return DispatchType(type, [&]<typename T>() {
    return ForEach(stream, images.pixels(),
                   ToImages<T>{step, images, rule, all_moments, y_channels, static_cast<T*>(y)});
  });
}

}  // namespace tern::kernels
