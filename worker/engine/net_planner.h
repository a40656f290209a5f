// Turns a net's layers into the steps of a program: the forward pass, and in training the backward
// pass through the tensors that depend on trained parameters. A template, because each backend
// (CPU, GPU) has its own classes Program, Layer and Value (a tensor of the program). Internal to
// the engine.
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
    std::function<std::unique_ptr<Layer>(const LayerSpec& spec)> make_layer;
    std::function<Value(const Value& a, const Value& b)> add_values;
    // Called before a pass of a layer is planned. `where`: what error messages should call the
    // pass.
    std::function<void(const std::string& where)> before_layer = [](const std::string&) {};
    // Called with the output of the last layer, after the forward passes of all layers are planned.
    std::function<void(const Value& scores)> after_forward = [](const Value&) {};
  };
  // `data` is the net's input. REQUIRES that `program` already has the step that computes `data`.
  NetPlanner(Program* program, const Backend& backend, const Value& data)
      : program_(*program), backend_(backend) {
    values_["data"] = data;
  }

  // Appends the steps of all layers to the program. Returns the last layer's output.
  Value Plan(const std::vector<PlannedLayer>& layers) {
    for (const PlannedLayer& layer : layers) PlanForward(layer);
    backend_.after_forward(values_.at(layers.back().output_tensor));
    program_.EndForward();
    if (layers.front().spec.is_training) {
      for (size_t i = layers.size(); i-- > 0;) PlanBackward(layers[i], layers_[i].get());
    }
    return values_.at(layers.back().output_tensor);
  }

 private:
  void PlanForward(const PlannedLayer& layer) {
    backend_.before_layer("layer \"" + layer.spec.def->name() + "\"");
    bool& is_dependent = depends_on_parameters_[layer.output_tensor] =
        !layer.spec.parameters.empty() && !layer.spec.is_frozen;
    std::vector<Value> inputs;
    for (const std::string& tensor : layer.input_tensors) {
      inputs.push_back(values_.at(tensor));
      is_dependent |= depends_on_parameters_[tensor];
    }
    for (const ParameterArrays& parameter : layer.spec.parameters) {
      if (!parameter.is_frozen) program_.MarkRead(parameter.index);
    }
    layers_.push_back(backend_.make_layer(layer.spec));
    values_[layer.output_tensor] = layers_.back()->Forward(&program_, inputs);
  }

  void PlanBackward(const PlannedLayer& planned_layer, Layer* layer) {
    if (!depends_on_parameters_[planned_layer.output_tensor]) return;
    backend_.before_layer("the backward pass of layer \"" + planned_layer.spec.def->name() + "\"");
    std::vector<bool> wanted_inputs;
    for (const std::string& tensor : planned_layer.input_tensors)
      wanted_inputs.push_back(depends_on_parameters_[tensor]);
    const std::vector<Value> input_gradients =
        layer->Backward(&program_, gradients_[planned_layer.output_tensor], wanted_inputs);
    for (size_t k = 0; k < wanted_inputs.size(); ++k) {
      if (wanted_inputs[k]) AddGradient(planned_layer.input_tensors[k], input_gradients[k]);
    }
    for (size_t p = planned_layer.spec.parameters.size(); p-- > 0;) {
      const ParameterArrays& parameter = planned_layer.spec.parameters[p];
      if (!parameter.is_frozen) program_.MarkReady(parameter.index);
    }
  }

  // Adds `gradient`, which the backward step of a layer that reads the tensor has returned, to the
  // tensor's gradient. The backward steps of all layers that read a tensor come before the backward
  // step of the layer that makes it.
  void AddGradient(const std::string& tensor, const Value& gradient) {
    const auto [entry, is_first] = gradients_.try_emplace(tensor, gradient);
    if (!is_first) entry->second = backend_.add_values(entry->second, gradient);
  }

  Program& program_;
  const Backend backend_;
  std::vector<std::unique_ptr<Layer>> layers_;
  // The keys are names of tensors.
  std::map<std::string, Value> values_, gradients_;
  std::map<std::string, bool> depends_on_parameters_;
};

}  // namespace tern::engine
