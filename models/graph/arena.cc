#include "models/graph/arena.h"

#include <algorithm>
#include <map>

namespace tern::models {

namespace {

std::vector<tensors::TensorView> ViewParameters(const std::vector<Parameter>& parameters,
                                                const float* arena, const std::string& prefix) {
  std::vector<tensors::TensorView> views;
  for (const Parameter& parameter : parameters) {
    views.push_back({prefix + parameter.name,
                     {parameter.shape.begin(), parameter.shape.end()},
                     {arena + parameter.offset, parameter.count}});
  }
  return views;
}

Status WrongModel(const std::string& message) {
  return Status(Code::kBadData, message + "; it is another model's");
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string shape_text = "[";
  for (const uint64_t dim : shape)
    shape_text += (shape_text.size() > 1 ? ", " : "") + std::to_string(dim);
  return shape_text + "]";
}

using TensorsByName = std::map<std::string, const tensors::Tensor*>;

TensorsByName IndexByName(const tensors::TensorFile& file) {
  TensorsByName tensors_by_name;
  for (const tensors::Tensor& tensor : file.tensors) tensors_by_name[tensor.name] = &tensor;
  return tensors_by_name;
}

Status LoadTensor(const TensorsByName& tensors, const std::string& name,
                  const std::vector<uint64_t>& shape, float* destination) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return WrongModel("the tensor \"" + name + "\" is missing");
  const tensors::Tensor& tensor = *found->second;
  if (tensor.shape != shape) {
    return WrongModel("the tensor \"" + name + "\" has shape " + ShapeText(tensor.shape) +
                      ", the model's is " + ShapeText(shape));
  }
  std::copy(tensor.values.begin(), tensor.values.end(), destination);
  return Ok();
}

}  // namespace

std::vector<tensors::TensorView> ViewArena(const ParameterTable& table, const float* arena,
                                           const std::string& prefix) {
  return ViewParameters(table.parameters, arena, prefix);
}

std::vector<tensors::TensorView> ViewFrozen(const ParameterTable& table, const float* arena) {
  return ViewParameters(table.frozen, arena, "");
}

Status LoadArena(const tensors::TensorFile& file, const ParameterTable& table, float* arena,
                 const std::string& prefix) {
  const TensorsByName tensors = IndexByName(file);
  for (const Parameter& p : table.parameters) {
    TERN_RETURN_IF_ERROR(
        LoadTensor(tensors, prefix + p.name, {p.shape.begin(), p.shape.end()}, arena + p.offset));
  }
  return Ok();
}

std::vector<tensors::TensorView> ViewStatistics(const ParameterTable& table, const float* arena) {
  std::vector<tensors::TensorView> views;
  for (const Statistic& statistic : table.statistics)
    views.push_back(
        {statistic.name, {statistic.count}, {arena + statistic.offset, statistic.count}});
  return views;
}

Status LoadStatistics(const tensors::TensorFile& file, const ParameterTable& table, float* arena) {
  const TensorsByName tensors = IndexByName(file);
  for (const Statistic& s : table.statistics)
    TERN_RETURN_IF_ERROR(LoadTensor(tensors, s.name, {s.count}, arena + s.offset));
  return Ok();
}

}  // namespace tern::models
