#include "worker/engine/cuda/norm_fusion.h"

#include <algorithm>

#include "worker/engine/cuda/conv_shape.h"

namespace tern::engine::cuda {
namespace {

// Returns the layer that reads a tensor, if it is an input only once; else nullptr.
PlannedLayer* OnlyReaderOf(const std::string& tensor, std::vector<PlannedLayer>* layers) {
  PlannedLayer* reader = nullptr;
  for (PlannedLayer& layer : *layers) {
    const auto num_reads =
        std::count(layer.input_tensors.begin(), layer.input_tensors.end(), tensor);
    if (num_reads == 0) continue;
    if (num_reads > 1 || reader != nullptr) return nullptr;
    reader = &layer;
  }
  return reader;
}

bool TakesMoments(const PlannedLayer& layer) {
  return layer.spec.def->has_batch_norm() && layer.spec.is_training && !layer.spec.is_frozen;
}

// cuDNN wants arrays aligned to 16 bytes; the sums of squares follow those of the elements, and
// shifts follow scales.
constexpr uint32_t kChannelsAtOnce = 8;

bool IsPlainConvolutionInHalves(const LayerSpec& spec) {
  return spec.precision == Precision::kFp16 && spec.def->has_conv() &&
         spec.def->conv().groups() == 1 && spec.parameters.size() == 1 && !spec.has_relu &&
         spec.output.c % kChannelsAtOnce == 0;
}

// Whether a batch norm reads the output of `layer`, and nothing else does.
bool IsBeforeNorm(const PlannedLayer& layer, std::vector<PlannedLayer>* layers) {
  const PlannedLayer* reader = OnlyReaderOf(layer.output_tensor, layers);
  return reader != nullptr && TakesMoments(*reader) &&
         reader->input_tensors[0] == layer.output_tensor;
}

// Returns the batch norm whose output, after a ReLU, only `layer` reads; nullptr if there is none.
PlannedLayer* NormBefore(const PlannedLayer& layer, std::vector<PlannedLayer>* layers) {
  const std::string& tensor = layer.input_tensors[0];
  for (PlannedLayer& norm : *layers) {
    if (norm.output_tensor != tensor || !TakesMoments(norm)) continue;
    const bool is_left = norm.spec.has_relu && norm.spec.inputs.size() == 1 &&
                         norm.spec.output.c % kChannelsAtOnce == 0 &&
                         OnlyReaderOf(tensor, layers) == &layer;
    return is_left ? &norm : nullptr;
  }
  return nullptr;
}

}  // namespace

NormFusions FuseNorms(uint32_t stored_channels, const HasPlan& has_plan,
                      std::vector<PlannedLayer>* layers) {
  NormFusions fusions;
  for (PlannedLayer& layer : *layers) {
    if (!IsPlainConvolutionInHalves(layer.spec)) continue;
    ConvShape shape = ConvShapeOf(layer.spec);
    if (layer.input_tensors[0] == "data") shape.slide.in.c = stored_channels;
    shape.has_sums = IsBeforeNorm(layer, layers);
    PlannedLayer* const norm = NormBefore(layer, layers);
    shape.normalizes = norm != nullptr;
    if (norm != nullptr) {
      const bool can_normalize =
          has_plan(shape, ConvPass::kForward) && has_plan(shape, ConvPass::kBackwardWeights);
      shape.normalizes = norm->spec.leaves_output = can_normalize;
      fusions.outputs += can_normalize;
      shape.takes_norm_gradient = can_normalize;
      norm->spec.leaves_gradient = can_normalize && has_plan(shape, ConvPass::kBackwardData);
      fusions.gradients += norm->spec.leaves_gradient;
    }
    layer.spec.has_sums =
        shape.has_sums && (shape.normalizes || has_plan(shape, ConvPass::kForward));
    fusions.sums += layer.spec.has_sums;
  }
  return fusions;
}

}  // namespace tern::engine::cuda
