// Convolutions by their definition: a thread an output, an input or a weight.
#include <cuda_runtime.h>

#include "kernels/device_layers.h"
#include "kernels/launch_inl.h"

namespace tern::kernels {
namespace {

struct Pixel {
  uint32_t n, h, w;
};

__device__ Pixel PixelOf(uint64_t i, const DeviceImages& images) {
  const auto w = static_cast<uint32_t>(i % images.w);
  const uint64_t row = i / images.w;
  return {static_cast<uint32_t>(row / images.h), static_cast<uint32_t>(row % images.h), w};
}

__device__ uint64_t PlaceOf(const Pixel& p, const DeviceImages& images) {
  return ((uint64_t{p.n} * images.h + p.h) * images.w + p.w) * images.c;
}

// Where tap `tap` of output `out` lies; false: on the padding.
__device__ bool Tap(const DeviceAxis& axis, uint32_t out, uint32_t tap, uint32_t size,
                    uint32_t* in) {
  const uint32_t at = out * axis.stride + tap * axis.dilation;
  if (at < axis.pad || at - axis.pad >= size) return false;
  *in = at - axis.pad;
  return true;
}

// Which output reads `in` by tap `tap`; false: none.
__device__ bool Reader(const DeviceAxis& axis, uint32_t in, uint32_t tap, uint32_t size,
                       uint32_t* out) {
  const uint32_t at = in + axis.pad, before = tap * axis.dilation;
  if (at < before || (at - before) % axis.stride != 0) return false;
  *out = (at - before) / axis.stride;
  return *out < size;
}

struct Forward {
  DeviceSlide slide;
  uint32_t groups;
  const float *x, *weight, *bias;
  bool relu;
  float* y;

  __device__ void operator()(uint64_t i) const {
    const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
    const auto o = static_cast<uint32_t>(i % slide.out.c);
    const Pixel at = PixelOf(i / slide.out.c, slide.out);
    const uint32_t inputs = slide.in.c / groups, first = o / (slide.out.c / groups) * inputs;
    const float* w = weight + uint64_t{o} * inputs * rows.kernel * columns.kernel;
    float sum = bias == nullptr ? 0 : bias[o];
    Pixel from{at.n, 0, 0};
    for (uint32_t kh = 0; kh < rows.kernel; ++kh) {
      if (!Tap(rows, at.h, kh, slide.in.h, &from.h)) continue;
      for (uint32_t kw = 0; kw < columns.kernel; ++kw) {
        if (!Tap(columns, at.w, kw, slide.in.w, &from.w)) continue;
        const float* pixel = x + PlaceOf(from, slide.in) + first;
        for (uint32_t k = 0; k < inputs; ++k)
          sum += pixel[k] * w[(k * rows.kernel + kh) * columns.kernel + kw];
      }
    }
    y[i] = relu && !(sum > 0) ? 0 : sum;
  }
};

struct BackwardData {
  DeviceSlide slide;
  uint32_t groups;
  const float *dy, *weight;
  float* dx;

  __device__ void operator()(uint64_t i) const {
    const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
    const auto c = static_cast<uint32_t>(i % slide.in.c);
    const Pixel at = PixelOf(i / slide.in.c, slide.in);
    const uint32_t inputs = slide.in.c / groups, outputs = slide.out.c / groups;
    const uint32_t first = c / inputs * outputs;
    float sum = 0;
    Pixel from{at.n, 0, 0};
    for (uint32_t kh = 0; kh < rows.kernel; ++kh) {
      if (!Reader(rows, at.h, kh, slide.out.h, &from.h)) continue;
      for (uint32_t kw = 0; kw < columns.kernel; ++kw) {
        if (!Reader(columns, at.w, kw, slide.out.w, &from.w)) continue;
        const float* pixel = dy + PlaceOf(from, slide.out) + first;
        for (uint32_t o = 0; o < outputs; ++o) {
          const uint64_t row = uint64_t{first + o} * inputs + c % inputs;
          sum += pixel[o] * weight[(row * rows.kernel + kh) * columns.kernel + kw];
        }
      }
    }
    dx[i] = sum;
  }
};

struct BackwardWeights {
  DeviceSlide slide;
  uint32_t groups;
  const float *x, *dy;
  float* gradient;

  __device__ void operator()(uint64_t i) const {
    const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
    const uint32_t inputs = slide.in.c / groups;
    const auto kw = static_cast<uint32_t>(i % columns.kernel);
    uint64_t rest = i / columns.kernel;
    const auto kh = static_cast<uint32_t>(rest % rows.kernel);
    rest /= rows.kernel;
    const auto o = static_cast<uint32_t>(rest / inputs);
    const uint32_t c = o / (slide.out.c / groups) * inputs + static_cast<uint32_t>(rest % inputs);
    double sum = 0;
    Pixel at{0, 0, 0}, from{0, 0, 0};
    for (at.n = from.n = 0; at.n < slide.out.n; from.n = ++at.n) {
      for (at.h = 0; at.h < slide.out.h; ++at.h) {
        if (!Tap(rows, at.h, kh, slide.in.h, &from.h)) continue;
        for (at.w = 0; at.w < slide.out.w; ++at.w) {
          if (!Tap(columns, at.w, kw, slide.in.w, &from.w)) continue;
          sum += double{x[PlaceOf(from, slide.in) + c]} * dy[PlaceOf(at, slide.out) + o];
        }
      }
    }
    gradient[i] = static_cast<float>(sum);
  }
};

struct SumColumn {
  const float* x;
  uint64_t rows;
  uint32_t columns;
  float* sums;

  __device__ void operator()(uint64_t c) const {
    double sum = 0;
    for (uint64_t row = 0; row < rows; ++row) sum += x[row * columns + c];
    sums[c] = static_cast<float>(sum);
  }
};

}  // namespace

int ConvForwardOnDevice(DeviceStream stream, const DeviceSlide& slide, uint32_t groups,
                        const float* x, const float* weight, const float* bias, bool relu,
                        float* y) {
  return ForEach(stream, slide.out.size(), Forward{slide, groups, x, weight, bias, relu, y});
}

int ConvBackwardDataOnDevice(DeviceStream stream, const DeviceSlide& slide, uint32_t groups,
                             const float* dy, const float* weight, float* dx) {
  return ForEach(stream, slide.in.size(), BackwardData{slide, groups, dy, weight, dx});
}

int ConvBackwardWeightsOnDevice(DeviceStream stream, const DeviceSlide& slide, uint32_t groups,
                                const float* x, const float* dy, float* weight) {
  const uint64_t taps = uint64_t{slide.window.rows.kernel} * slide.window.columns.kernel;
  return ForEach(stream, uint64_t{slide.out.c} * (slide.in.c / groups) * taps,
                 BackwardWeights{slide, groups, x, dy, weight});
}

int ColumnSumsOnDevice(DeviceStream stream, const float* x, uint64_t rows, uint32_t columns,
                       float* sums) {
  return ForEach(stream, columns, SumColumn{x, rows, columns, sums});
}

}  // namespace tern::kernels
