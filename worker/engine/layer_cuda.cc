#include "worker/engine/layer_cuda.h"

namespace tern::engine::cuda {
namespace {

constexpr LayerKind kLayerKinds[] = {
    {pb::LayerDef::kConv, &MakeConv, /*fuses_relu=*/true},
    {pb::LayerDef::kDense, &MakeDense, /*fuses_relu=*/true},
    {pb::LayerDef::kMaxPool, &MakePool, /*fuses_relu=*/false},
    {pb::LayerDef::kAvgPool, &MakePool, /*fuses_relu=*/false},
    {pb::LayerDef::kRelu, &MakeRelu, /*fuses_relu=*/false},
    {pb::LayerDef::kBatchNorm, &MakeBatchNorm, /*fuses_relu=*/true},
    {pb::LayerDef::kLrn, &MakeLrn, /*fuses_relu=*/false},
    {pb::LayerDef::kDropout, &MakeDropout, /*fuses_relu=*/false},
    {pb::LayerDef::kConcat, &MakeConcat, /*fuses_relu=*/false},
    {pb::LayerDef::kAdd, &MakeAdd, /*fuses_relu=*/true},
    {pb::LayerDef::kStandardize, &MakeStandardize, /*fuses_relu=*/false},
    {pb::LayerDef::kSoftmaxLoss, &MakeSoftmaxLoss, /*fuses_relu=*/false},
};

}  // namespace

const LayerKind* FindLayerKind(pb::LayerDef::KindCase kind) {
  for (const LayerKind& line : kLayerKinds) {
    if (line.kind == kind) return &line;
  }
  return nullptr;
}

Value Flatten(Program* program, const Value& value) {
  const models::ImageDims& image = value.image;
  const models::ImageDims flat = {image.c * image.h * image.w, 1, 1};
  if (image.h * image.w == 1) return {flat, value.buffer, value.shared};
  const Value rows = program->NewValue(flat);
  program->Call("to channels first", {value, rows},
                [images = ImagesOf(program->batch(), image)](auto stream, const auto& data) {
                  return kernels::ToChannelsFirstOnDevice(stream, data[0], images, data[1]);
                });
  return rows;
}

Value Unflatten(Program* program, const Value& value, const models::ImageDims& image) {
  if (image.h * image.w == 1) return {image, value.buffer, value.shared};
  const Value images = program->NewValue(image);
  program->Call("to channels last", {value, images},
                [of = ImagesOf(program->batch(), image)](auto stream, const auto& data) {
                  return kernels::ToChannelsLastOnDevice(stream, data[0], of, data[1]);
                });
  return images;
}

}  // namespace tern::engine::cuda
