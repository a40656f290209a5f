// Turns a net's layers into the steps of a program, for any backend: forward, then backward through
// the tensors that depend on parameters. Internal to the engine.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/engine/specs.h"

namespace tern::engine {

template <typename Program, typename Layer, typename Value>
class NetPlanner {
 public:
  struct Backend {
    std::function<std::unique_ptr<Layer>(const LayerSpec& spec)> make;
    std::function<Value(const Value& a, const Value& b)> add;
    // Called with the layer being planned, for messages.
    std::function<void(const std::string& where)> begin_layer = [](const std::string&) {};
    // Called with the scores after the forward pass is planned.
    std::function<void(const Value& scores)> with_scores = [](const Value&) {};
  };
  // REQUIRES that `program` already has the step that makes `data`.
  NetPlanner(Program* program, const Backend& backend, const Value& data)
      : program_(*program), backend_(backend) {
    values_["data"] = data;
  }

  // Appends all steps; the layers are not needed afterwards. Returns the last layer's output.
  Value Plan(const std::vector<PlannedLayer>& layers) {
    for (const PlannedLayer& layer : layers) Forward(layer);
    backend_.with_scores(values_.at(layers.back().makes));
    program_.EndForward();
    if (layers.front().spec.training) {
      for (size_t i = layers.size(); i-- > 0;) Backward(layers[i], running_[i].get());
    }
    return values_.at(layers.back().makes);
  }

 private:
  void Forward(const PlannedLayer& layer) {
    backend_.begin_layer("layer \"" + layer.spec.def->name() + "\"");
    bool& trained = trained_[layer.makes] = !layer.spec.parameters.empty();
    std::vector<Value> inputs;
    for (const std::string& tensor : layer.reads) {
      inputs.push_back(values_.at(tensor));
      trained |= trained_[tensor];
    }
    for (const ParameterArrays& parameter : layer.spec.parameters)
      program_.MarkRead(parameter.index);
    running_.push_back(backend_.make(layer.spec));
    values_[layer.makes] = running_.back()->Forward(&program_, inputs);
  }

  void Backward(const PlannedLayer& layer, Layer* running) {
    if (!trained_[layer.makes]) return;
    backend_.begin_layer("the backward pass of layer \"" + layer.spec.def->name() + "\"");
    std::vector<bool> wanted;
    for (const std::string& tensor : layer.reads) wanted.push_back(trained_[tensor]);
    const std::vector<Value> inputs = running->Backward(&program_, gradients_[layer.makes], wanted);
    for (size_t k = 0; k < wanted.size(); ++k) {
      if (wanted[k]) AddGradient(layer.reads[k], inputs[k]);
    }
    for (size_t p = layer.spec.parameters.size(); p-- > 0;)
      program_.MarkReady(layer.spec.parameters[p].index);
  }

  // A tensor's gradient is the sum of those that its readers return; the readers' backward steps
  // all precede its maker's.
  void AddGradient(const std::string& tensor, const Value& gradient) {
    const auto [found, first] = gradients_.try_emplace(tensor, gradient);
    if (!first) found->second = backend_.add(found->second, gradient);
  }

  Program& program_;
  const Backend backend_;
  std::vector<std::unique_ptr<Layer>> running_;
  std::map<std::string, Value> values_, gradients_;  // by tensor
  std::map<std::string, bool> trained_;              // by tensor: whether it depends on parameters
};

}  // namespace tern::engine
