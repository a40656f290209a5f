#include "worker/engine/layer_cpu.h"

namespace tern::engine {
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

}  // namespace tern::engine
