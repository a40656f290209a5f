// Which inputs and outputs of a pooling belong together, on a CPU as on a GPU. A tap is the index
// of an element in a window.
#pragma once

#include <cstdint>

#include "kernels/device/host_device.h"
#include "kernels/nn/device_images.h"

namespace tern::kernels {

// A range [begin, end) of an axis; empty if end is not above begin.
struct PoolSpan {
  uint32_t begin, end;
  TERN_HOST_DEVICE uint32_t size() const { return begin < end ? end - begin : 0; }
};

// The inputs that output `out` reads along an axis of `size` inputs.
TERN_HOST_DEVICE PoolSpan InputsOf(const DeviceAxis& axis, uint32_t out, uint32_t size) {
  const uint32_t begin = out * axis.stride, end = begin + axis.kernel;
  const uint32_t input_end = end > axis.pad ? end - axis.pad : 0;
  return {begin > axis.pad ? begin - axis.pad : 0, input_end < size ? input_end : size};
}

// The outputs that read input `in` along an axis of `size` outputs.
TERN_HOST_DEVICE PoolSpan OutputsOf(const DeviceAxis& axis, uint32_t in, uint32_t size) {
  const uint32_t padded_in = in + axis.pad, output_end = padded_in / axis.stride + 1;
  const uint32_t begin = padded_in < axis.kernel ? 0 : (padded_in - axis.kernel) / axis.stride + 1;
  return {begin, output_end < size ? output_end : size};
}

// The tap of input `in` in the window of output `out`, along one axis.
TERN_HOST_DEVICE uint32_t TapOf(const DeviceAxis& axis, uint32_t out, uint32_t in) {
  return in + axis.pad - out * axis.stride;
}

// The divisor of the mean of output (h, w): the number of elements in its window. Elements of the
// padding count only if `include_padding`.
TERN_HOST_DEVICE float DivisorOf(const DeviceSlide& slide, bool include_padding, uint32_t h,
                                 uint32_t w) {
  const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
  if (include_padding) return static_cast<float>(rows.kernel * columns.kernel);
  return static_cast<float>(InputsOf(rows, h, slide.in.h).size() *
                            InputsOf(columns, w, slide.in.w).size());
}

}  // namespace tern::kernels
