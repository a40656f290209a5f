#include "worker/engine/cuda/layer.h"

#include "kernels/nn/elementwise.h"

namespace tern::engine::cuda {

Value Flatten(Program* program, const Value& value) {
  const models::ImageDims& image = value.image;
  const models::ImageDims flat_dims = {image.c * image.h * image.w, 1, 1};
  if (image.h * image.w == 1) return {flat_dims, value.buffer, value.is_shared};
  const Value rows = program->NewValue(flat_dims);
  program->Call("to channels first", {value, rows},
                [images = ImagesOf(program->batch(), image), type = program->type()](
                    auto stream, const auto& data) {
                  return kernels::ToChannelsFirstOnDevice(stream, type, data[0], images, data[1]);
                });
  return rows;
}

Value Unflatten(Program* program, const Value& value, const models::ImageDims& image) {
  if (image.h * image.w == 1) return {image, value.buffer, value.is_shared};
  const Value images = program->NewValue(image);
  program->Call("to channels last", {value, images},
                [shape = ImagesOf(program->batch(), image), type = program->type()](
                    auto stream, const auto& data) {
                  return kernels::ToChannelsLastOnDevice(stream, type, data[0], shape, shape.c,
                                                         type, data[1]);
                });
  return images;
}

}  // namespace tern::engine::cuda
