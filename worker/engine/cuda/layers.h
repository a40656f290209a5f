// The table of the layers of the GPU engine: which function makes layers of which kind. Internal to
// the engine.
#pragma once

#include <memory>

#include "proto/net.pb.h"
#include "worker/engine/cuda/layer.h"

namespace tern::engine::cuda {

std::unique_ptr<Layer> MakeAdd(const LayerSpec& spec, const Inputs& inputs);
std::unique_ptr<Layer> MakeBatchNorm(const LayerSpec& spec, const Inputs& inputs);
std::unique_ptr<Layer> MakeConcat(const LayerSpec& spec, const Inputs& inputs);
std::unique_ptr<Layer> MakeConv(const LayerSpec& spec, const Inputs& inputs);
std::unique_ptr<Layer> MakeDense(const LayerSpec& spec, const Inputs& inputs);
std::unique_ptr<Layer> MakeDropout(const LayerSpec& spec, const Inputs& inputs);
std::unique_ptr<Layer> MakeGelu(const LayerSpec& spec, const Inputs& inputs);
std::unique_ptr<Layer> MakeLrn(const LayerSpec& spec, const Inputs& inputs);
std::unique_ptr<Layer> MakePool(const LayerSpec& spec, const Inputs& inputs);
std::unique_ptr<Layer> MakeRelu(const LayerSpec& spec, const Inputs& inputs);
std::unique_ptr<Layer> MakeScale(const LayerSpec& spec, const Inputs& inputs);
std::unique_ptr<Layer> MakeSoftmaxLoss(const LayerSpec& spec, const Inputs& inputs);
std::unique_ptr<Layer> MakeStandardize(const LayerSpec& spec, const Inputs& inputs);

struct LayerKind {
  pb::LayerDef::KindCase kind;
  std::unique_ptr<Layer> (*make)(const LayerSpec& spec, const Inputs& inputs);
};

inline constexpr LayerKind kLayerKinds[] = {
    {pb::LayerDef::kConv, MakeConv},
    {pb::LayerDef::kDense, MakeDense},
    {pb::LayerDef::kMaxPool, MakePool},
    {pb::LayerDef::kAvgPool, MakePool},
    {pb::LayerDef::kRelu, MakeRelu},
    {pb::LayerDef::kGelu, MakeGelu},
    {pb::LayerDef::kScale, MakeScale},
    {pb::LayerDef::kBatchNorm, MakeBatchNorm},
    {pb::LayerDef::kLrn, MakeLrn},
    {pb::LayerDef::kDropout, MakeDropout},
    {pb::LayerDef::kConcat, MakeConcat},
    {pb::LayerDef::kAdd, MakeAdd},
    {pb::LayerDef::kStandardize, MakeStandardize},
    {pb::LayerDef::kSoftmaxLoss, MakeSoftmaxLoss},
};

// Returns the table's entry of a kind; nullptr if this engine has no such layer.
const LayerKind* FindLayerKind(pb::LayerDef::KindCase kind);

}  // namespace tern::engine::cuda
