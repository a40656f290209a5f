// The shapes of a convolution or pooling, as kernels take them. Internal to the engine.
#pragma once

#include "kernels/nn/device_images.h"
#include "models/graph/shapes.h"
#include "worker/engine/layer_spec.h"

namespace tern::engine {

// Returns the shape of a batch of images.
inline kernels::DeviceImages ImagesOf(uint32_t batch, const models::ImageDims& image) {
  return {batch, image.h, image.w, image.c};
}

// Returns the sliding window of `def`, a ConvDef or a PoolDef, and the shapes of its input and
// output. REQUIRES that the shapes of the net have been inferred, which checks the window's sizes.
template <typename Def>
kernels::DeviceSlide SlideOf(const LayerSpec& spec, const Def& def) {
  const auto axis = [&def](uint32_t size) -> kernels::DeviceAxis {
    const models::Window window = models::WindowOf(def, size);
    return {window.kernel, window.stride, window.dilation,
            models::PlanAxis(size, window)->pad_begin};
  };
  return {ImagesOf(spec.batch, spec.input()),
          ImagesOf(spec.batch, spec.output),
          {axis(spec.input().h), axis(spec.input().w)}};
}

}  // namespace tern::engine
