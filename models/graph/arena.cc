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

// The tensors of a file, by name.
struct FileIndex {
  explicit FileIndex(const tensors::TensorFile& indexed_file) : file(indexed_file) {
    for (const tensors::Tensor& tensor : file.tensors) tensors[tensor.name] = &tensor;
  }
  const tensors::TensorFile& file;
  std::map<std::string, const tensors::Tensor*> tensors;
};

Status LoadTensor(const FileIndex& index, const std::string& name,
                  const std::vector<uint64_t>& shape, float* destination) {
  const auto found = index.tensors.find(name);
  if (found == index.tensors.end()) {
    const std::string sentence = "the tensor \"" + name + "\" " + index.file.WhyMissing(name);
    if (index.file.unread.contains(name)) return Status(Code::kBadData, sentence);
    return WrongModel(sentence);
  }
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
  const FileIndex index(file);
  for (const Parameter& p : table.parameters) {
    TERN_RETURN_IF_ERROR(
        LoadTensor(index, prefix + p.name, {p.shape.begin(), p.shape.end()}, arena + p.offset));
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
  const FileIndex index(file);
  for (const Statistic& s : table.statistics)
    TERN_RETURN_IF_ERROR(LoadTensor(index, s.name, {s.count}, arena + s.offset));
  return Ok();
}

}  // namespace tern::models
