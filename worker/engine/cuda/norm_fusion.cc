#include "worker/engine/cuda/norm_fusion.h"

#include <algorithm>

#include "worker/engine/cuda/conv_shape.h"

namespace tern::engine::cuda {
namespace {

// Returns the layer that reads a tensor, if it is an input only once; else nullptr.
const PlannedLayer* OnlyReaderOf(const std::string& tensor,
                                 const std::vector<PlannedLayer>& layers) {
  const PlannedLayer* reader = nullptr;
  for (const PlannedLayer& layer : layers) {
    const auto num_reads =
        std::count(layer.input_tensors.begin(), layer.input_tensors.end(), tensor);
    if (num_reads == 0) continue;
    if (num_reads > 1 || reader != nullptr) return nullptr;
    reader = &layer;
  }
  return reader;
}

// Whether the layer normalizes `tensor` by the moments of the batch.
bool TakesMomentsOf(const std::string& tensor, const PlannedLayer& layer) {
  return layer.spec.def->has_batch_norm() && layer.spec.is_training && !layer.spec.is_frozen &&
         layer.input_tensors[0] == tensor;
}

bool IsPlainConvolutionInHalves(const LayerSpec& spec) {
  // cuDNN wants arrays aligned to 16 bytes; the sums of squares follow those of the elements.
  constexpr uint32_t kChannelsAtOnce = 8;
  return spec.precision == Precision::kFp16 && spec.def->has_conv() &&
         spec.def->conv().groups() == 1 && spec.parameters.size() == 1 && !spec.has_relu &&
         spec.output.c % kChannelsAtOnce == 0;
}

}  // namespace

uint32_t FuseNorms(uint32_t stored_channels, const HasPlan& has_plan,
                   std::vector<PlannedLayer>* layers) {
  uint32_t num_fused = 0;
  for (PlannedLayer& layer : *layers) {
    if (!IsPlainConvolutionInHalves(layer.spec)) continue;
    const PlannedLayer* reader = OnlyReaderOf(layer.output_tensor, *layers);
    if (reader == nullptr || !TakesMomentsOf(layer.output_tensor, *reader)) continue;
    ConvShape shape = ConvShapeOf(layer.spec);
    if (layer.input_tensors[0] == "data") shape.slide.in.c = stored_channels;
    shape.has_sums = true;
    layer.spec.has_sums = has_plan(shape, ConvPass::kForward);
    num_fused += layer.spec.has_sums;
  }
  return num_fused;
}

}  // namespace tern::engine::cuda
