#include "worker/engine/specs.h"

#include <algorithm>
#include <map>

namespace tern::engine {

namespace {

using Shapes = std::map<std::string, models::ImageDims>;

// oneDNN and cuDNN index the elements of a tensor by int.
constexpr uint64_t kMaxElements = (uint64_t{1} << 31) - 1;

Status BadJobError(const std::string& message) { return Status(Code::kBadJob, message); }

// Whether layers of a kind can also compute the ReLU that follows them, in every backend.
bool CanFuseRelu(pb::LayerDef::KindCase kind) {
  return kind == pb::LayerDef::kConv || kind == pb::LayerDef::kDense ||
         kind == pb::LayerDef::kBatchNorm || kind == pb::LayerDef::kAdd;
}

Status CheckTensorSizes(const Shapes& shapes, uint32_t batch, bool is_training) {
  if (batch == 0) return BadJobError("the engine needs a batch of at least one sample");
  for (const auto& [name, dims] : shapes) {
    if (models::Elements(dims) <= kMaxElements / batch) continue;
    return BadJobError("tensor \"" + name + "\" has more than 2^31 elements at a batch of " +
                       std::to_string(batch) + "; " + SmallerBatch(is_training));
  }
  return Ok();
}

// Assigns parameters and statistics to layers. They are in arenas, that is, arrays for all layers.
// Call AssignArrays for all layers, in the order in which the arenas contain their parameters.
class ArenaCursor {
 public:
  ArenaCursor(const models::ParameterTable& table, const Net::Arenas& arenas,
              float* frozen_gradients)
      : table_(table), arenas_(arenas), frozen_gradients_(frozen_gradients) {}

  void AssignArrays(const std::string& layer, LayerSpec* spec) {
    spec->is_frozen = IsNext(layer, table_.frozen, next_frozen_);
    while (true) {
      const bool is_trained = IsNext(layer, table_.parameters, next_parameter_);
      const bool is_frozen = IsNext(layer, table_.frozen, next_frozen_);
      if (!is_trained && !is_frozen) break;
      // A layer's parameters keep their order, whichever of them are frozen.
      const bool takes_frozen =
          is_frozen && !(is_trained && table_.parameters[next_parameter_].number <
                                           table_.frozen[next_frozen_].number);
      spec->parameters.push_back(takes_frozen ? TakeFrozen(spec->is_training)
                                              : TakeTrained(spec->is_training));
      spec->is_frozen &= takes_frozen;
    }
    while (next_statistic_ < table_.statistics.size() &&
           BelongsTo(layer, table_.statistics[next_statistic_].name))
      spec->statistics.push_back(arenas_.statistics + table_.statistics[next_statistic_++].offset);
  }

 private:
  static bool IsNext(const std::string& layer, const std::vector<models::Parameter>& parameters,
                     size_t next) {
    return next < parameters.size() && BelongsTo(layer, parameters[next].name);
  }
  ParameterArrays TakeTrained(bool is_training) {
    const uint64_t offset = table_.parameters[next_parameter_].offset;
    return {next_parameter_++, const_cast<float*>(arenas_.parameters) + offset,
            is_training ? arenas_.gradients + offset : nullptr};
  }
  ParameterArrays TakeFrozen(bool is_training) {
    const uint64_t offset = table_.frozen[next_frozen_++].offset;
    return {0, const_cast<float*>(arenas_.frozen) + offset,
            is_training ? frozen_gradients_ + offset : nullptr, /*is_frozen=*/true};
  }
  // Whether the parameter `name`, LAYER.PARAMETER, belongs to the layer. LAYER may contain dots.
  static bool BelongsTo(const std::string& layer, const std::string& name) {
    return name.substr(0, name.rfind('.')) == layer;
  }

  const models::ParameterTable& table_;
  const Net::Arenas& arenas_;
  float* const frozen_gradients_;
  uint32_t next_parameter_ = 0, next_frozen_ = 0, next_statistic_ = 0;
};

class LayerPlanner {
 public:
  LayerPlanner(const pb::NetDef& def, const Net::Options& options, const Shapes& shapes,
               ArenaCursor cursor, HasLayer has_layer)
      : def_(def), options_(options), shapes_(shapes), cursor_(cursor), has_layer_(has_layer) {
    for (const pb::LayerDef& layer : def.layers())
      for (const std::string& input : layer.inputs()) ++num_reads_[input];
  }

  Result<std::vector<PlannedLayer>> Plan() {
    for (int i = 0; i < def_.layers_size(); ++i) {
      const pb::LayerDef& layer = def_.layers(i);
      if (!has_layer_(layer.kind_case()))
        return BadJobError("layer \"" + layer.name() + "\": the engine has no such kind");
      if (!FuseRelu(layer) && !FuseAdd(layer)) AddLayer(layer, static_cast<uint32_t>(i));
    }
    return std::move(layers_);
  }

 private:
  // Returns the layer that makes a tensor, if the tensor is an input only once; else nullptr.
  PlannedLayer* MakerIfReadOnce(const std::string& tensor) {
    if (num_reads_.at(tensor) > 1) return nullptr;
    const auto maker = std::find_if(layers_.begin(), layers_.end(), [&](const PlannedLayer& l) {
      return l.output_tensor == tensor;
    });
    return maker == layers_.end() ? nullptr : &*maker;
  }

  // If `layer` is a ReLU that the layer before it can compute, makes the layer before it do so, and
  // returns true. Otherwise returns false.
  bool FuseRelu(const pb::LayerDef& layer) {
    if (!layer.has_relu() || layer.relu().has_max()) return false;
    PlannedLayer* maker = MakerIfReadOnce(layer.inputs(0));
    if (maker == nullptr || maker->spec.has_relu) return false;
    if (!CanFuseRelu(maker->spec.def->kind_case())) return false;
    maker->spec.has_relu = true;
    maker->output_tensor = layer.output();
    return true;
  }

  // If `layer` is a sum of two tensors, the later of which is the output of a batch norm that can
  // add the other tensor, makes the batch norm do so, and returns true. Otherwise returns false.
  bool FuseAdd(const pb::LayerDef& layer) {
    if (!layer.has_add() || layer.inputs_size() != 2) return false;
    PlannedLayer* maker = nullptr;
    std::string other_input;
    for (int i : {0, 1}) {
      PlannedLayer* candidate = MakerIfReadOnce(layer.inputs(i));
      if (candidate == nullptr || candidate < maker) continue;
      maker = candidate;
      other_input = layer.inputs(1 - i);
    }
    if (maker == nullptr || !maker->spec.def->has_batch_norm() || maker->spec.has_relu)
      return false;
    if (maker->spec.inputs.size() > 1 || IsMadeAfter(*maker, other_input)) return false;
    maker->input_tensors.push_back(other_input);
    maker->spec.inputs.push_back(maker->spec.output);
    maker->output_tensor = layer.output();
    return true;
  }

  // Whether `tensor` is the output of `layer` or of a layer after it.
  bool IsMadeAfter(const PlannedLayer& layer, const std::string& tensor) const {
    return std::any_of(layers_.begin() + (&layer - layers_.data()), layers_.end(),
                       [&](const PlannedLayer& l) { return l.output_tensor == tensor; });
  }

  void AddLayer(const pb::LayerDef& layer, uint32_t layer_number) {
    PlannedLayer& planned_layer = layers_.emplace_back();
    LayerSpec& spec = planned_layer.spec;
    spec.def = &layer;
    spec.batch = options_.batch;
    spec.precision = options_.precision;
    spec.is_training = options_.is_training;
    spec.output = shapes_.at(layer.output());
    spec.noise = {.seed = options_.seed,
                  .stream = kernels::NoiseStream::kDropout,
                  .rank = options_.rank,
                  .tensor = layer_number};
    planned_layer.output_tensor = layer.output();
    for (const std::string& input : layer.inputs()) {
      const auto shape = shapes_.find(input);
      if (shape == shapes_.end()) continue;  // The input "label" has no image shape.
      planned_layer.input_tensors.push_back(input);
      spec.inputs.push_back(shape->second);
    }
    cursor_.AssignArrays(layer.name(), &spec);
  }

  const pb::NetDef& def_;
  const Net::Options& options_;
  const Shapes& shapes_;
  ArenaCursor cursor_;
  const HasLayer has_layer_;
  std::map<std::string, int> num_reads_;  // How often layers name each tensor as an input.
  std::vector<PlannedLayer> layers_;
};

}  // namespace

std::string SmallerBatch(bool is_training) {
  return is_training ? "take a smaller batch per worker" : "lower evaluation.batch";
}

Result<std::vector<PlannedLayer>> PlanLayers(const pb::NetDef& def, const Net::Options& options,
                                             const models::ParameterTable& table,
                                             const Net::Arenas& arenas, float* frozen_gradients,
                                             HasLayer has_layer) {
  const auto shapes = models::InferShapes(def);
  if (!shapes.ok()) return shapes.status();
  TERN_RETURN_IF_ERROR(CheckTensorSizes(*shapes, options.batch, options.is_training));
  return LayerPlanner(def, options, *shapes, ArenaCursor(table, arenas, frozen_gradients),
                      has_layer)
      .Plan();
}

}  // namespace tern::engine
