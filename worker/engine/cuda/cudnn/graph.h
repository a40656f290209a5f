// Makes plans with cuDNN that compute a pass of a convolution (conv_library.h). A graph describes
// the operations of the pass; FindCandidates (candidates.h) returns engine configurations that can
// run it; a plan is made from one of these. If the device is given by its properties, the steps
// before MakePlan need no GPU. Internal to the engine.
//
//   Target -> MakeGraph -> FindCandidates -> MakePlan
//   Target -> PlanFromJson, with the JSON text of an earlier plan
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "worker/engine/cuda/conv_library.h"
#include "worker/engine/cuda/cudnn/descriptor.h"

struct cudnnContext;

namespace tern::engine::cuda::cudnn {

// The device on which plans will run: the device of a cuDNN handle, or a device that is only
// described by its properties.
struct Target {
  cudnnContext* handle = nullptr;  // Must outlive the Target.
  Descriptor properties;           // Used if `handle` is null.
};
// Makes a Target from `json`, cuDNN's JSON text of a device's properties.
Result<Target> TargetOf(const std::string& json);

// Makes the operation graph of a pass.
Result<Descriptor> MakeGraph(const Target& target, const ConvShape& shape, ConvPass pass);

struct Plan {
  Descriptor descriptor;
  size_t workspace_bytes = 0;  // The bytes of workspace that a run needs.
  std::string json;            // The plan as text, for PlanFromJson.
};
// Make a plan: from `candidate`, an engine configuration, or from the JSON text of another plan.
Result<Plan> MakePlan(const Target& target, const Descriptor& candidate);
Result<Plan> PlanFromJson(const Target& target, const std::string& json);

// Makes the list of a pass's tensors and their addresses that cudnnBackendExecute takes.
Result<Descriptor> MakeVariantPack(const ConvShape& shape, ConvPass pass, const ConvData& data);

}  // namespace tern::engine::cuda::cudnn
