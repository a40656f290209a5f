#include "worker/engine/cpu/layer.h"

namespace tern::engine {
namespace {

constexpr LayerKind kLayerKinds[] = {
    {pb::LayerDef::kConv, &MakeConv},
    {pb::LayerDef::kDense, &MakeDense},
    {pb::LayerDef::kMaxPool, &MakePool},
    {pb::LayerDef::kAvgPool, &MakePool},
    {pb::LayerDef::kRelu, &MakeRelu},
    {pb::LayerDef::kBatchNorm, &MakeBatchNorm},
    {pb::LayerDef::kLrn, &MakeLrn},
    {pb::LayerDef::kDropout, &MakeDropout},
    {pb::LayerDef::kConcat, &MakeConcat},
    {pb::LayerDef::kAdd, &MakeAdd},
    {pb::LayerDef::kStandardize, &MakeStandardize},
    {pb::LayerDef::kSoftmaxLoss, &MakeSoftmaxLoss},
};

}  // namespace

const LayerKind* FindLayerKind(pb::LayerDef::KindCase kind) {
  for (const LayerKind& line : kLayerKinds) {
    if (line.kind == kind) return &line;
  }
  return nullptr;
}

}  // namespace tern::engine
