#include "models/graph/window.h"

#include "common/base/text.h"
#include "models/graph/limits.h"

namespace tern::models {
namespace {

Status BadWindow(const std::string& message) { return Status(Code::kBadJob, message); }

}  // namespace

Window WindowOf(const pb::ConvDef& conv, uint32_t /*input*/) {
  Window window{conv.kernel(), conv.stride(), conv.dilation(), conv.padding(), {}};
  if (conv.has_pad()) window.pad = conv.pad();
  return window;
}

Window WindowOf(const pb::PoolDef& pool, uint32_t input) {
  if (pool.global()) return {.kernel = input};
  Window window{pool.kernel(), pool.stride(), 1, pool.padding(), {}};
  if (pool.has_pad()) window.pad = pool.pad();
  return window;
}

Result<AxisPlan> PlanAxis(uint32_t input, const Window& window) {
  const auto in_bounds = [](uint32_t n) { return n >= 1 && n <= kMaxDim; };
  if (!in_bounds(input) || !in_bounds(window.kernel) || !in_bounds(window.stride)) {
    return BadWindow(Cat("input ", input, ", kernel ", window.kernel, ", stride ", window.stride,
                         " must each be 1 to ", kMaxDim));
  }
  const uint64_t covered_elements = uint64_t{window.kernel - 1} * window.dilation + 1;
  AxisPlan plan;
  if (window.pad.has_value() || window.padding == pb::Pad::valid) {
    plan.pad_begin = plan.pad_end = window.pad.value_or(0);
    const uint64_t padded_elements = uint64_t{input} + 2 * plan.pad_begin;
    if (covered_elements > padded_elements) {
      return BadWindow(Cat("kernel ", window.kernel, " does not fit an input of ", input,
                           "; take a smaller kernel, or padding: same"));
    }
    plan.num_outputs =
        static_cast<uint32_t>((padded_elements - covered_elements) / window.stride + 1);
    return plan;
  }
  plan.num_outputs = (input + window.stride - 1) / window.stride;
  const uint64_t needed_elements =
      uint64_t{plan.num_outputs - 1} * window.stride + covered_elements;
  const uint32_t total_padding =
      needed_elements > input ? static_cast<uint32_t>(needed_elements - input) : 0;
  plan.pad_begin = total_padding / 2;
  plan.pad_end = total_padding - plan.pad_begin;
  return plan;
}

}  // namespace tern::models
