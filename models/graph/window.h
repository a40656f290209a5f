// Sliding windows of convolutions and pools: padding and output sizes.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/status.h"
#include "proto/net.pb.h"

namespace tern::models {

// A window along one axis of an image: `kernel` elements at a distance of `dilation`.
struct Window {
  uint32_t kernel = 1, stride = 1, dilation = 1;
  pb::Pad::Kind padding = pb::Pad::valid;
  std::optional<uint32_t> pad = std::nullopt;  // elements on each side; replaces `padding`
};
// The window of a completed layer, on an axis of `input` elements.
Window WindowOf(const pb::ConvDef& conv, uint32_t input);
Window WindowOf(const pb::PoolDef& pool, uint32_t input);

// Along one axis: the number of outputs, and of padded elements before and after the image.
struct AxisPlan {
  uint32_t num_outputs = 0, pad_begin = 0, pad_end = 0;
};
// Plans an axis of `input` elements. `same` pads so that num_outputs = ceil(input / stride); if the
// number of padded elements is odd, the end gets one more than the beginning. kBadJob if the kernel
// does not fit, or if input, kernel or stride is not 1 to 65536.
Result<AxisPlan> PlanAxis(uint32_t input, const Window& window);

}  // namespace tern::models
