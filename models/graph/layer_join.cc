// The rules of layers with several inputs: concatenation and addition.
#include "models/graph/layer_rules.h"
#include "models/graph/limits.h"

namespace tern::models {

namespace {

Status NothingToComplete(pb::LayerDef*) { return Ok(); }

Result<ImageDims> ConcatOutput(const pb::LayerDef&, const InputShapes& inputs) {
  ImageDims output = inputs[0];
  uint64_t channels = 0;
  for (const ImageDims& input : inputs) {
    channels += input.c;
    if (input.h == output.h && input.w == output.w) continue;
    return BadLayer("its inputs are " + ShapeText(inputs[0]) + " and " + ShapeText(input) +
                    "; inputs of concat must have the same height and width");
  }
  if (channels > kMaxDim)
    return BadLayer("its output has " + std::to_string(channels) + " channels; at most " +
                    std::to_string(kMaxDim) + " are allowed");
  output.c = static_cast<uint32_t>(channels);
  return output;
}

Result<ImageDims> OutputOfAdd(const pb::LayerDef&, const InputShapes& inputs) {
  for (const ImageDims& input : inputs) {
    if (input.c == inputs[0].c && input.h == inputs[0].h && input.w == inputs[0].w) continue;
    return BadLayer("its inputs are " + ShapeText(inputs[0]) + " and " + ShapeText(input) +
                    "; inputs of add must have the same shape");
  }
  return inputs[0];
}

}  // namespace

constinit const LayerRules kConcatRules = {
    pb::LayerDef::kConcat, "concat", 2, kMaxInputs, &NothingToComplete, &ConcatOutput, &NoState};
constinit const LayerRules kAddRules = {pb::LayerDef::kAdd, "add",        2,       kMaxInputs,
                                        &NothingToComplete, &OutputOfAdd, &NoState};

}  // namespace tern::models
