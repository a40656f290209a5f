#include "models/graph/tensor_table.h"

#include <set>
#include <string>
#include <utility>

#include "common/base/hash.h"
#include "common/base/text.h"
#include "models/graph/limits.h"

namespace tern::models {
namespace {

Status CheckName(const std::string& name, int t, std::set<std::string>* names) {
  if (name.empty() || name.size() > kMaxTensorName || Printable(name) != name) {
    return Status(Code::kBadData,
                  Cat("tensor ", t, ": saw the name '", Printable(name, kMaxTensorName),
                      "'; allowed: 1 to ", kMaxTensorName, " printable characters"));
  }
  if (names->insert(name).second) return Ok();
  return Status(Code::kBadData, Cat("tensor ", t, ": saw the name '", name,
                                    "' a second time; every tensor needs a name of its own"));
}

Result<Parameter> MakeParameter(const pb::Tensor& tensor, uint32_t number, uint64_t offset) {
  Parameter parameter;
  parameter.name = tensor.name();
  parameter.shape.assign(tensor.shape().begin(), tensor.shape().end());
  parameter.number = number;
  parameter.offset = offset;
  parameter.count = parameter.fan_in = 1;
  for (int d = 0; d < tensor.shape_size(); ++d) {
    parameter.count = BoundedProduct(parameter.count, tensor.shape(d));
    if (d > 0) parameter.fan_in = BoundedProduct(parameter.fan_in, tensor.shape(d));
  }
  parameter.is_bias = tensor.shape_size() < 2;
  parameter.fan_out = tensor.shape_size() > 0 ? tensor.shape(0) : 1;
  if (parameter.count > 0 && tensor.shape_size() <= kMaxTensorDims) return parameter;
  return Status(Code::kBadData,
                Cat("tensor ", tensor.name(), ": saw ", tensor.shape_size(), " dimensions and ",
                    parameter.count, " elements; allowed: at most ", kMaxTensorDims,
                    " dimensions, and at least 1 element"));
}

// The running statistics of batch norms. Their first values are the program's.
Status AddStatistics(const pb::TensorTable& tensors, std::set<std::string>* names,
                     ParameterTable* table) {
  if (tensors.statistics_size() > kMaxTensors || tensors.statistics_size() % 2 != 0) {
    return Status(Code::kBadData, Cat("saw ", tensors.statistics_size(),
                                      " statistics in the program's table; allowed: pairs of a "
                                      "mean and a variance, at most ",
                                      kMaxTensors, " in all"));
  }
  for (int i = 0; i < tensors.statistics_size(); ++i) {
    const pb::Tensor& tensor = tensors.statistics(i);
    TERN_RETURN_IF_ERROR(CheckName(tensor.name(), i, names));
    Statistic statistic;
    statistic.name = tensor.name();
    statistic.offset = table->statistics_total;
    statistic.count = tensor.shape_size() == 1 ? tensor.shape(0) : 0;
    table->statistics_total += statistic.count;
    const bool fits = i % 2 == 0 || table->statistics.back().count == statistic.count;
    if (statistic.count == 0 || !fits || table->statistics_total > kMaxStatistics) {
      return Status(Code::kBadData,
                    Cat("statistic ", statistic.name,
                        ": saw another shape than one dimension with as many elements as the mean "
                        "or variance beside it, at most ",
                        kMaxStatistics, " in all"));
    }
    table->statistics.push_back(std::move(statistic));
  }
  return Ok();
}

}  // namespace

Result<ParameterTable> TableOfTensors(const pb::TensorTable& tensors) {
  if (tensors.tensors_size() < 1 || tensors.tensors_size() > kMaxTensors) {
    return Status(Code::kBadData,
                  Cat("saw ", tensors.tensors_size(),
                      " tensors in the client's table; allowed: 1 to ", kMaxTensors));
  }
  ParameterTable table;
  std::set<std::string> names;
  for (int t = 0; t < tensors.tensors_size(); ++t) {
    TERN_RETURN_IF_ERROR(CheckName(tensors.tensors(t).name(), t, &names));
    Result<Parameter> parameter =
        MakeParameter(tensors.tensors(t), static_cast<uint32_t>(t), table.total);
    if (!parameter.ok()) return parameter.status();
    table.total += parameter->count;
    if (table.total > kMaxElements) {
      return Status(Code::kBadData,
                    Cat("saw more than ", kMaxElements, " elements up to tensor ", parameter->name,
                        "; allowed: at most that many in all tensors together"));
    }
    table.parameters.push_back(std::move(*parameter));
  }
  TERN_RETURN_IF_ERROR(AddStatistics(tensors, &names, &table));
  return table;
}

uint64_t TensorTableDigest(const pb::TensorTable& tensors) {
  std::string text;
  for (const pb::Tensor& tensor : tensors.tensors()) {
    text += Cat(tensor.name().size(), ":", tensor.name());
    for (const uint32_t size : tensor.shape()) text += Cat(",", size);
    text += ";";
  }
  for (const pb::Tensor& tensor : tensors.statistics())
    text += Cat(tensor.name().size(), ":", tensor.name(), ";");
  if (tensors.has_fixed_digest()) text += Hex(tensors.fixed_digest());
  return Digest(text);
}

}  // namespace tern::models
