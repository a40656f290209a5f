#include "models/graph/layer_rules.h"

#include <cmath>
#include <utility>

#include "common/base/text.h"
#include "models/graph/limits.h"

namespace tern::models {

namespace {

constexpr const LayerRules* kRules[] = {
    &kConvRules,        &kMaxPoolRules,     &kAvgPoolRules, &kDenseRules,  &kReluRules,
    &kBatchNormRules,   &kLrnRules,         &kDropoutRules, &kConcatRules, &kAddRules,
    &kStandardizeRules, &kSoftmaxLossRules, &kGeluRules,    &kScaleRules,
};

Status CheckInit(const std::string& key, const pb::Init& init) {
  switch (init.kind_case()) {
    case pb::Init::kConstant:
      return CheckNumber(key + ".constant", init.constant(), -INFINITY, INFINITY);
    case pb::Init::kNormalStd:
      return CheckNumber(key + ".normal_std", init.normal_std(), 0, INFINITY);
    case pb::Init::kTruncatedNormalStd:
      return CheckNumber(key + ".truncated_normal_std", init.truncated_normal_std(), 0, INFINITY);
    default:
      return Ok();
  }
}

}  // namespace

const LayerRules* FindRules(pb::LayerDef::KindCase kind) {
  for (const LayerRules* rules : kRules) {
    if (rules->kind == kind) return rules;
  }
  return nullptr;
}

std::string KindNames() {
  std::vector<std::string> names;
  for (const LayerRules* rules : kRules) names.push_back(rules->name);
  return Join(names);
}

Status BadLayer(const std::string& message) { return Status(Code::kBadJob, message); }

std::string ShapeText(const ImageDims& dims) { return Cat(dims.c, " x ", dims.h, " x ", dims.w); }

Status CheckSize(const std::string& key, uint32_t value) {
  if (value >= 1 && value <= kMaxDim) return Ok();
  return BadLayer(Cat(key, " is ", value, "; it must be 1 to ", kMaxDim));
}

Status CheckNumber(const std::string& key, float value, float min, float max) {
  if (std::isfinite(value) && value >= min && value <= max) return Ok();
  std::string bounds = std::isinf(min) ? "" : Cat(" of at least ", min);
  if (!std::isinf(max)) bounds += Cat(" and at most ", max);
  return BadLayer(Cat(key, " is ", value, "; it must be a finite number", bounds));
}

Status CompleteInit(const std::string& key, float constant, pb::Init* init) {
  if (init->kind_case() == pb::Init::KIND_NOT_SET) init->set_constant(constant);
  if (init->has_he()) init->mutable_he()->set_fan_out(init->he().fan_out());
  if (init->has_dirac())
    return BadLayer(
        key +
        " is dirac; it must be another one here, because dirac is for weights of conv and dense");
  return CheckInit(key, *init);
}

Status CompleteWeightInit(pb::Init* init) {
  if (init->kind_case() == pb::Init::KIND_NOT_SET) init->mutable_xavier();
  if (init->has_dirac()) return Ok();
  return CompleteInit("weight_init", 0, init);
}

Parameter MakeParameter(const pb::LayerDef& layer, const char* role, std::vector<uint32_t> shape,
                        const pb::Init& init) {
  Parameter parameter;
  parameter.name = layer.name() + "." + role;
  parameter.shape = std::move(shape);
  parameter.init = init;
  parameter.is_bias = parameter.shape.size() == 1;
  parameter.fan_in = 1;
  for (size_t i = 1; i < parameter.shape.size(); ++i)
    parameter.fan_in = BoundedProduct(parameter.fan_in, parameter.shape[i]);
  parameter.count = BoundedProduct(parameter.fan_in, parameter.shape[0]);
  // A weight has the dimensions outputs, inputs and those of a kernel. The number of elements of
  // the kernel is a factor of fan_in and of fan_out.
  const uint64_t kernel_elements = parameter.is_bias ? 1 : parameter.fan_in / parameter.shape[1];
  parameter.fan_out = BoundedProduct(parameter.shape[0], kernel_elements);
  return parameter;
}

}  // namespace tern::models
