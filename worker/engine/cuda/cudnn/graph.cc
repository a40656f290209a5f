#include "worker/engine/cuda/cudnn/graph.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "kernels/nn/device_images.h"
#include "worker/engine/cuda/cudnn/descriptor_builder.h"
#include "worker/engine/cuda/cudnn/operations.h"

namespace tern::engine::cuda::cudnn {
namespace {

void SetTarget(const Target& target, DescriptorBuilder* plan) {
  if (target.handle == nullptr) {
    plan->Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target.properties);
  } else {
    plan->Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
  }
}

// Reads the plan's workspace size and JSON text from its descriptor.
Result<Plan> PlanFromDescriptor(Descriptor descriptor) {
  Plan plan{std::move(descriptor), 0, {}};
  int64_t workspace_bytes = 0, count = 0;
  TERN_RETURN_IF_ERROR(
      CheckCudnn(TheCudnn().BackendGetAttribute(plan.descriptor.get(),
                                                CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                CUDNN_TYPE_INT64, 1, &count, &workspace_bytes),
                 "a plan's workspace"));
  plan.workspace_bytes = static_cast<size_t>(workspace_bytes);
  constexpr auto kJson = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
  TERN_RETURN_IF_ERROR(
      CheckCudnn(TheCudnn().BackendGetAttribute(plan.descriptor.get(), kJson, CUDNN_TYPE_CHAR, 0,
                                                &count, nullptr),
                 "a plan's JSON"));
  plan.json.resize(static_cast<size_t>(count));
  TERN_RETURN_IF_ERROR(
      CheckCudnn(TheCudnn().BackendGetAttribute(plan.descriptor.get(), kJson, CUDNN_TYPE_CHAR,
                                                count, &count, plan.json.data()),
                 "a plan's JSON"));
  while (!plan.json.empty() && plan.json.back() == '\0') plan.json.pop_back();
  return plan;
}

}  // namespace

Result<Target> TargetOf(const std::string& json) {
  auto properties = DescriptorBuilder(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "a device")
                        .Set<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json)
                        .Finish();
  if (!properties.ok()) return properties.status();
  return Target{nullptr, std::move(*properties)};
}

Result<Descriptor> MakeGraph(const Target& target, const ConvShape& shape, ConvPass pass) {
  const auto operations = MakeOperations(shape, pass);
  if (!operations.ok()) return operations.status();
  std::vector<cudnnBackendDescriptor_t> raw_operations;
  for (const Descriptor& operation : *operations) raw_operations.push_back(operation.get());
  DescriptorBuilder builder(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph");
  builder.Set<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS, raw_operations);
  if (target.handle != nullptr) builder.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  return builder.Finish();
}

Result<Plan> MakePlan(const Target& target, const Descriptor& candidate) {
  DescriptorBuilder builder(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan");
  builder.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, candidate);
  SetTarget(target, &builder);
  auto descriptor = builder.Finish();
  if (!descriptor.ok()) return descriptor.status();
  return PlanFromDescriptor(std::move(*descriptor));
}

Result<Plan> PlanFromJson(const Target& target, const std::string& json) {
  DescriptorBuilder builder(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan");
  builder.Set<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, json);
  SetTarget(target, &builder);
  auto descriptor = builder.Finish();
  if (!descriptor.ok()) return descriptor.status();
  return PlanFromDescriptor(std::move(*descriptor));
}

Result<Descriptor> MakeVariantPack(const ConvShape& shape, ConvPass pass, const ConvData& data) {
  std::vector<int64_t> uids = {kImagesIn, kKernel, kImagesOut};
  std::vector<void*> pointers = {data.x, data.kernel, data.y};
  if (shape.has_bias && pass == ConvPass::kForward) {
    uids.push_back(kBias);
    pointers.push_back(data.bias);
  }
  if (AddsUp(shape, pass)) {
    uids.insert(uids.end(), {kSums, kSquares});
    pointers.insert(pointers.end(), {data.sums, data.sums + shape.slide.out.c});
  }
  if (Normalizes(shape, pass)) {
    auto* scale = static_cast<std::byte*>(data.norm);
    uids.insert(uids.end(), {kScale, kShift});
    pointers.insert(pointers.end(),
                    {scale, scale + shape.slide.in.c * kernels::BytesOf(shape.type)});
  }
  if (TakesNormGradient(shape, pass)) {
    const uint32_t channels = shape.slide.in.c;
    const auto arrays = kernels::NormArraysAt(data.norm_arrays, channels);
    uids.insert(uids.end(), {kNormInput, kMean, kInverse, kGain, kNormBias, kProducts,
                             kGradientSums, kUnused, kUnused2, kUnused3});
    pointers.insert(pointers.end(), {data.norm_input, arrays.mean, arrays.inverse, arrays.gain,
                                     arrays.bias, arrays.products, arrays.sums, arrays.unused,
                                     arrays.unused + channels, arrays.unused + 2 * channels});
  }
  return DescriptorBuilder(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "a plan's data")
      .Set<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids)
      .SetPointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers)
      .SetPointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {&data.workspace, 1})
      .Finish();
}

}  // namespace tern::engine::cuda::cudnn
