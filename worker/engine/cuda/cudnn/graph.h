// The passes of conv_library.h as operation graphs of cuDNN: a graph, the library's candidates for
// it (candidates.h), and a plan of one of them. Steps before the plan need no GPU if the device is
// given by its properties. Internal to the engine.
//
//   Target -> MakeGraph -> FindCandidates -> MakePlan
//   Target -> PlanFromJson, with the json of an earlier plan
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "worker/engine/cuda/conv_library.h"
#include "worker/engine/cuda/cudnn/descriptor.h"

struct cudnnContext;

namespace tern::engine::cuda::cudnn {

// The device of the plans: that of a handle, which outlives it, or a device described by cuDNN's
// JSON of device properties.
struct Target {
  cudnnContext* handle = nullptr;
  Descriptor properties;  // used without a handle
};
Result<Target> TargetOf(const std::string& json);

// Identifies tensors in a plan's data.
enum Uid : int64_t { kImagesIn = 1, kKernel, kImagesOut, kBias, kBeforeBias, kBeforeRelu };

Result<Descriptor> MakeGraph(const Target& target, const ConvShape& shape, ConvPass pass);

struct Plan {
  Descriptor descriptor;
  size_t workspace = 0;  // bytes
  std::string json;
};
Result<Plan> MakePlan(const Target& target, const Descriptor& candidate);
Result<Plan> PlanFromJson(const Target& target, const std::string& json);

// The tensors of a pass and their addresses, for cudnnBackendExecute.
Result<Descriptor> MakeVariantPack(const ConvShape& shape, ConvPass pass, const ConvData& data);

}  // namespace tern::engine::cuda::cudnn
