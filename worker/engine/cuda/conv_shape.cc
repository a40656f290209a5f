#include "worker/engine/cuda/conv_shape.h"

#include "worker/engine/slide.h"

namespace tern::engine::cuda {

kernels::DeviceType TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return kernels::DeviceType::kBfloat;
    case Precision::kFp16:
      return kernels::DeviceType::kHalf;
    case Precision::kFp32:
    case Precision::kTf32:
      break;
  }
  return kernels::DeviceType::kFloat;
}

ConvShape ConvShapeOf(const LayerSpec& spec) {
  ConvShape shape;
  if (spec.def->has_conv()) {
    shape.slide = SlideOf(spec, spec.def->conv());
    shape.groups = spec.def->conv().groups();
  } else {
    const models::ImageDims& input = spec.input();
    shape.slide = {
        {spec.batch, 1, 1, input.c * input.h * input.w}, ImagesOf(spec.batch, spec.output), {}};
  }
  shape.type = TypeOf(spec.precision);
  shape.allows_tf32 = spec.precision == Precision::kTf32;
  shape.has_bias = spec.parameters.size() > 1;
  shape.has_sums = spec.has_sums;
  return shape;
}

}  // namespace tern::engine::cuda
