#include "models/graph/weights.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/hash.h"
#include "common/base/text.h"
#include "models/graph/freeze.h"
#include "models/graph/shapes.h"

namespace tern::models {
namespace {

constexpr const char* kNewTensors = "model.new_tensors";

std::string DimsText(const std::vector<uint64_t>& shape) {
  std::vector<std::string> dims;
  for (const uint64_t dim : shape) dims.push_back(Cat(dim));
  return Cat("[", Join(dims, ", "), "]");
}

// Copies the tensors of a file that the job takes from it.
class FileWeights {
 public:
  FileWeights(const tensors::TensorFile& file, const std::vector<std::string>& new_tensors)
      : file_(file), new_tensors_(new_tensors) {
    for (const tensors::Tensor& tensor : file.tensors) tensors_[tensor.name] = &tensor;
  }

  // Overwrites `values` unless the tensor `name` is new.
  Status Copy(const std::string& name, const std::vector<uint64_t>& shape, float* values) const {
    if (MatchesAny(new_tensors_, name)) return Ok();
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      return Unfit(name, Cat(file_.WhyMissing(name), "; the model's has shape ", DimsText(shape)));
    const tensors::Tensor& tensor = *found->second;
    if (tensor.shape != shape) {
      return Unfit(
          name, Cat("has shape ", DimsText(tensor.shape), ", the model's has ", DimsText(shape)));
    }
    if (!std::all_of(tensor.values.begin(), tensor.values.end(),
                     [](float value) { return std::isfinite(value); }))
      return Unfit(name, "has a value that is not finite");
    std::copy(tensor.values.begin(), tensor.values.end(), values);
    return Ok();
  }

 private:
  static Status Unfit(const std::string& name, const std::string& why) {
    return Status(Code::kBadData,
                  Cat("the tensor \"", name, "\" ", why, "; if it is to begin anew, write ",
                      kNewTensors, ": [\"", name.substr(0, name.rfind('.')), ".*\"]"));
  }

  const tensors::TensorFile& file_;
  std::map<std::string, const tensors::Tensor*> tensors_;
  const std::vector<std::string>& new_tensors_;
};

uint64_t BytesDigest(const std::vector<float>& values) {
  return Digest(
      std::span(reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)));
}

}  // namespace

Weights RandomWeights(const ParameterTable& table, uint64_t seed) {
  Weights weights;
  weights.parameters.resize(table.total);
  weights.frozen.resize(table.frozen_total);
  weights.statistics.resize(table.statistics_total);
  InitParameters(table, seed, weights.parameters.data());
  InitFrozen(table, seed, weights.frozen.data());
  InitStatistics(table, weights.statistics.data());
  return weights;
}

Result<Weights> WeightsFromFile(const tensors::TensorFile& file, const ParameterTable& table,
                                uint64_t seed, const std::vector<std::string>& new_tensors) {
  TERN_RETURN_IF_ERROR(CheckPatterns(kNewTensors, new_tensors, table));
  Weights weights = RandomWeights(table, seed);
  const FileWeights source(file, new_tensors);
  for (const Parameter& p : table.parameters) {
    TERN_RETURN_IF_ERROR(source.Copy(p.name, {p.shape.begin(), p.shape.end()},
                                     weights.parameters.data() + p.offset));
  }
  for (const Parameter& p : table.frozen) {
    if (MatchesAny(new_tensors, p.name)) {
      return Status(Code::kBadJob,
                    Cat("train.freeze and ", kNewTensors, " both name the tensor \"", p.name,
                        "\": a new tensor has to be trained; leave it out of one of them"));
    }
    TERN_RETURN_IF_ERROR(
        source.Copy(p.name, {p.shape.begin(), p.shape.end()}, weights.frozen.data() + p.offset));
  }
  for (const Statistic& s : table.statistics)
    TERN_RETURN_IF_ERROR(source.Copy(s.name, {s.count}, weights.statistics.data() + s.offset));
  return weights;
}

uint64_t WeightsDigest(const Weights& weights) {
  return Digest(Cat(Hex(BytesDigest(weights.parameters)), Hex(BytesDigest(weights.frozen)),
                    Hex(BytesDigest(weights.statistics))));
}

}  // namespace tern::models
