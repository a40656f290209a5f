// The rules of max and average pooling, over windows or over the whole image.
#include "common/base/text.h"
#include "models/graph/layer_rules.h"
#include "models/graph/layer_window.h"

namespace tern::models {

namespace {

Status CompletePool(bool is_average, pb::PoolDef* pool) {
  if (!is_average && pool->has_include_padding())
    return BadLayer("include_padding is for avg_pool; padded elements never win a maximum");
  if (is_average) pool->set_include_padding(pool->include_padding());
  pool->set_global(pool->global());
  if (pool->global()) {
    if (pool->has_kernel() || pool->has_stride() || pool->has_padding() || pool->has_pad())
      return BadLayer("global takes the whole image; leave kernel, stride, padding and pad out");
    return Ok();
  }
  TERN_RETURN_IF_ERROR(CheckSize("kernel", pool->kernel()));
  if (!pool->has_stride()) pool->set_stride(pool->kernel());
  return CompleteWindow(pool->kernel(), pool);
}

const pb::PoolDef& PoolOf(const pb::LayerDef& layer) {
  return layer.has_max_pool() ? layer.max_pool() : layer.avg_pool();
}

// Of each window, 16 bits say which element is the largest.
Status CheckMaxWindow(const pb::PoolDef& pool, const ImageDims& input) {
  constexpr uint64_t kMaxElements = 65'536;
  const uint64_t elements =
      uint64_t{WindowOf(pool, input.h).kernel} * WindowOf(pool, input.w).kernel;
  if (elements <= kMaxElements) return Ok();
  return BadLayer(
      Cat("its window has ", elements, " elements; it must have at most ", kMaxElements));
}

Result<ImageDims> PoolOutput(const pb::LayerDef& layer, const InputShapes& inputs) {
  if (layer.has_max_pool()) TERN_RETURN_IF_ERROR(CheckMaxWindow(layer.max_pool(), inputs[0]));
  return WindowOutput(inputs[0], inputs[0].c, PoolOf(layer));
}

}  // namespace

constinit const LayerRules kMaxPoolRules = {
    pb::LayerDef::kMaxPool,
    "max_pool",
    1,
    1,
    [](pb::LayerDef* layer) { return CompletePool(false, layer->mutable_max_pool()); },
    &PoolOutput,
    &NoState};
constinit const LayerRules kAvgPoolRules = {
    pb::LayerDef::kAvgPool,
    "avg_pool",
    1,
    1,
    [](pb::LayerDef* layer) { return CompletePool(true, layer->mutable_avg_pool()); },
    &PoolOutput,
    &NoState};

}  // namespace tern::models
