// Maximum and mean over windows: a thread an output, and on the way back a thread an input.
#include <cuda_runtime.h>

#include "kernels/device_layers.h"
#include "kernels/launch_inl.h"

namespace tern::kernels {
namespace {

// An element of [n, h, w, c].
struct Place {
  uint32_t n, h, w, c;
};

__device__ Place PlaceAt(uint64_t i, const DeviceImages& images) {
  const auto c = static_cast<uint32_t>(i % images.c);
  i /= images.c;
  const auto w = static_cast<uint32_t>(i % images.w);
  i /= images.w;
  return {static_cast<uint32_t>(i / images.h), static_cast<uint32_t>(i % images.h), w, c};
}

__device__ uint64_t IndexOf(const Place& p, const DeviceImages& images) {
  return ((uint64_t{p.n} * images.h + p.h) * images.w + p.w) * images.c + p.c;
}

// [begin, end) of an axis.
struct Span {
  uint32_t begin, end;
  __device__ uint32_t size() const { return end - begin; }
};

// What output `out` covers of the image.
__device__ Span Covered(const DeviceAxis& axis, uint32_t out, uint32_t size) {
  const uint32_t begin = out * axis.stride, end = begin + axis.kernel;
  const uint32_t last = end > axis.pad ? end - axis.pad : 0;
  return {begin > axis.pad ? begin - axis.pad : 0, last < size ? last : size};
}

// The outputs that cover input `in`.
__device__ Span Covering(const DeviceAxis& axis, uint32_t in, uint32_t size) {
  const uint32_t at = in + axis.pad, last = at / axis.stride + 1;
  const uint32_t begin = at < axis.kernel ? 0 : (at - axis.kernel) / axis.stride + 1;
  return {begin, last < size ? last : size};
}

struct MaxForward {
  DeviceSlide slide;
  const float* x;
  float* y;
  uint32_t* winner;

  __device__ void operator()(uint64_t i) const {
    const Place at = PlaceAt(i, slide.out);
    const Span rows = Covered(slide.window.rows, at.h, slide.in.h);
    const Span columns = Covered(slide.window.columns, at.w, slide.in.w);
    float largest = -INFINITY;
    uint32_t place = rows.begin * slide.in.w + columns.begin;
    for (uint32_t h = rows.begin; h < rows.end; ++h) {
      for (uint32_t w = columns.begin; w < columns.end; ++w) {
        const float value = x[IndexOf({at.n, h, w, at.c}, slide.in)];
        if (!(value > largest)) continue;
        largest = value;
        place = h * slide.in.w + w;
      }
    }
    y[i] = largest;
    winner[i] = place;
  }
};

struct MaxBackward {
  DeviceSlide slide;
  const float* dy;
  const uint32_t* winner;
  float* dx;

  __device__ void operator()(uint64_t i) const {
    const Place at = PlaceAt(i, slide.in);
    const Span rows = Covering(slide.window.rows, at.h, slide.out.h);
    const Span columns = Covering(slide.window.columns, at.w, slide.out.w);
    const uint32_t place = at.h * slide.in.w + at.w;
    float sum = 0;
    for (uint32_t h = rows.begin; h < rows.end; ++h) {
      for (uint32_t w = columns.begin; w < columns.end; ++w) {
        const uint64_t out = IndexOf({at.n, h, w, at.c}, slide.out);
        if (winner[out] == place) sum += dy[out];
      }
    }
    dx[i] = sum;
  }
};

// What a mean is divided by.
__device__ float CountOf(const DeviceSlide& slide, bool include_padding, uint32_t h, uint32_t w) {
  const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
  if (include_padding) return static_cast<float>(rows.kernel * columns.kernel);
  return static_cast<float>(Covered(rows, h, slide.in.h).size() *
                            Covered(columns, w, slide.in.w).size());
}

struct AvgForward {
  DeviceSlide slide;
  bool include_padding;
  const float* x;
  float* y;

  __device__ void operator()(uint64_t i) const {
    const Place at = PlaceAt(i, slide.out);
    const Span rows = Covered(slide.window.rows, at.h, slide.in.h);
    const Span columns = Covered(slide.window.columns, at.w, slide.in.w);
    float sum = 0;
    for (uint32_t h = rows.begin; h < rows.end; ++h)
      for (uint32_t w = columns.begin; w < columns.end; ++w)
        sum += x[IndexOf({at.n, h, w, at.c}, slide.in)];
    y[i] = sum / CountOf(slide, include_padding, at.h, at.w);
  }
};

struct AvgBackward {
  DeviceSlide slide;
  bool include_padding;
  const float* dy;
  float* dx;

  __device__ void operator()(uint64_t i) const {
    const Place at = PlaceAt(i, slide.in);
    const Span rows = Covering(slide.window.rows, at.h, slide.out.h);
    const Span columns = Covering(slide.window.columns, at.w, slide.out.w);
    float sum = 0;
    for (uint32_t h = rows.begin; h < rows.end; ++h)
      for (uint32_t w = columns.begin; w < columns.end; ++w)
        sum += dy[IndexOf({at.n, h, w, at.c}, slide.out)] / CountOf(slide, include_padding, h, w);
    dx[i] = sum;
  }
};

}  // namespace

int MaxPoolForwardOnDevice(DeviceStream stream, const DeviceSlide& slide, const float* x, float* y,
                           uint32_t* winner) {
  return ForEach(stream, slide.out.size(), MaxForward{slide, x, y, winner});
}

int MaxPoolBackwardOnDevice(DeviceStream stream, const DeviceSlide& slide, const float* dy,
                            const uint32_t* winner, float* dx) {
  return ForEach(stream, slide.in.size(), MaxBackward{slide, dy, winner, dx});
}

int AvgPoolForwardOnDevice(DeviceStream stream, const DeviceSlide& slide, bool include_padding,
                           const float* x, float* y) {
  return ForEach(stream, slide.out.size(), AvgForward{slide, include_padding, x, y});
}

int AvgPoolBackwardOnDevice(DeviceStream stream, const DeviceSlide& slide, bool include_padding,
                            const float* dy, float* dx) {
  return ForEach(stream, slide.in.size(), AvgBackward{slide, include_padding, dy, dx});
}

}  // namespace tern::kernels
