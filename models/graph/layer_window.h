// The windows of convolution and pooling layers, which slide over an image.
#pragma once

#include "common/base/status.h"
#include "models/graph/layer_rules.h"
#include "models/graph/window.h"
#include "proto/net.pb.h"

namespace tern::models {

// Sets the defaults of stride and padding, and checks the bounds of stride and pad. `def` is a
// ConvDef or a PoolDef; `covered_pixels` is how many pixels its kernel covers along an axis.
template <typename Def>
Status CompleteWindow(uint32_t covered_pixels, Def* def) {
  if (def->has_pad() && def->has_padding() && def->padding() != pb::Pad::valid)
    return BadLayer("both pad and padding are given; give one of them");
  if (def->has_pad() && def->pad() >= covered_pixels) {
    return BadLayer("pad is " + std::to_string(def->pad()) + "; it must be less than the " +
                    std::to_string(covered_pixels) + " pixels that the kernel covers");
  }
  def->set_padding(def->padding());
  def->set_stride(def->stride());
  return CheckSize("stride", def->stride());
}

// The shape of a layer's output: `input` is the input's shape, `channels` the number of output
// channels, `def` a ConvDef or PoolDef.
template <typename Def>
Result<ImageDims> WindowOutput(const ImageDims& input, uint32_t channels, const Def& def) {
  const Result<AxisPlan> row_plan = PlanAxis(input.h, WindowOf(def, input.h));
  const Result<AxisPlan> column_plan = PlanAxis(input.w, WindowOf(def, input.w));
  if (!row_plan.ok()) return row_plan.status().Within("height");
  if (!column_plan.ok()) return column_plan.status().Within("width");
  return ImageDims{channels, row_plan->num_outputs, column_plan->num_outputs};
}

}  // namespace tern::models
