#include "models/graph/freeze.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/text.h"

namespace tern::models {
namespace {

bool Matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

template <typename Tensors>
bool MatchesOne(const std::string& pattern, const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& tensor) { return Matches(pattern, tensor.name); });
}

Status NoTensor(const std::string& key, const std::string& pattern, const ParameterTable& table) {
  std::vector<std::string> names;
  for (const std::vector<Parameter>* list : {&table.parameters, &table.frozen}) {
    for (const Parameter& parameter : *list) names.push_back(parameter.name);
  }
  constexpr size_t kMaxNames = 12;
  const size_t num_names = names.size();
  names.resize(std::min(num_names, kMaxNames));
  return Status(
      Code::kBadJob,
      Cat(key, ": \"", Printable(pattern), "\" is the name of ",
          MatchesOne(pattern, table.statistics) ? "statistics, and of no tensor" : "no tensor",
          " of the model; its ", num_names > kMaxNames ? "first " : "", "tensors are ",
          Join(names, ", "), num_names > kMaxNames ? "; `tern check` lists all of a job's" : ""));
}

// The name of the layer: that of its parameter without the last part.
std::string LayerOf(const std::string& name) { return name.substr(0, name.rfind('.')); }

}  // namespace

bool MatchesAny(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return Matches(pattern, name); });
}

Status CheckPatterns(const std::string& key, const std::vector<std::string>& patterns,
                     const ParameterTable& table) {
  for (const std::string& pattern : patterns) {
    if (!MatchesOne(pattern, table.statistics))
      TERN_RETURN_IF_ERROR(CheckParameterPattern(key, pattern, table));
  }
  return Ok();
}

Status CheckParameterPattern(const std::string& key, const std::string& pattern,
                             const ParameterTable& table) {
  if (MatchesOneOf(pattern, table.parameters) || MatchesOneOf(pattern, table.frozen)) return Ok();
  return NoTensor(key, pattern, table);
}

bool MatchesOneOf(const std::string& pattern, const std::vector<Parameter>& parameters) {
  return MatchesOne(pattern, parameters);
}

Status FreezeParameters(const std::vector<std::string>& patterns, ParameterTable* table) {
  if (patterns.empty()) return Ok();
  for (const std::string& pattern : patterns) {
    if (!MatchesOneOf(pattern, table->parameters)) return NoTensor("train.freeze", pattern, *table);
  }
  std::set<std::string> trained_layers;
  std::vector<Parameter> trained;
  table->total = 0;
  for (Parameter& parameter : table->parameters) {
    const bool is_frozen = MatchesAny(patterns, parameter.name);
    uint64_t& end = is_frozen ? table->frozen_total : table->total;
    parameter.offset = end;
    end += parameter.count;
    if (!is_frozen) trained_layers.insert(LayerOf(parameter.name));
    (is_frozen ? table->frozen : trained).push_back(std::move(parameter));
  }
  table->parameters = std::move(trained);
  for (Statistic& statistic : table->statistics)
    statistic.is_frozen = !trained_layers.contains(LayerOf(statistic.name));
  if (!table->parameters.empty()) return Ok();
  return Status(Code::kBadJob,
                "train.freeze: all tensors of the model are frozen, so there is nothing to train; "
                "leave out the last layer's");
}

}  // namespace tern::models
