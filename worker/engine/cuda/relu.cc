// ReLU as a separate layer on a GPU, with or without an upper bound, and the ReLU at the end of
// another layer.
#include <limits>

#include "kernels/nn/elementwise.h"
#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {
namespace {

constexpr float kNoBound = std::numeric_limits<float>::infinity();

void AddForward(Program* program, const Value& input, const Value& output, float upper_bound) {
  const uint64_t num_elements = models::Elements(output.image) * program->batch();
  program->Call("ReLU", {input, output},
                [num_elements, upper_bound, type = program->type()](auto stream, const auto& data) {
                  return kernels::ReluForwardOnDevice(stream, type, data[0], num_elements,
                                                      upper_bound, data[1]);
                });
}

Value AddBackward(Program* program, const Value& output, const Value& gradient, float upper_bound) {
  const Value masked_gradient = program->InPlaceOrNew(gradient);
  const uint64_t num_elements = models::Elements(output.image) * program->batch();
  program->Call("ReLU, backward", {output, gradient, masked_gradient},
                [num_elements, upper_bound, type = program->type()](auto stream, const auto& data) {
                  return kernels::ReluBackwardOnDevice(stream, type, data[0], data[1], num_elements,
                                                       upper_bound, data[2]);
                });
  return {output.image, masked_gradient.buffer, masked_gradient.is_shared};
}

class Relu : public Layer {
 public:
  explicit Relu(const LayerSpec& spec)
      : upper_bound_(spec.def->relu().has_max() ? spec.def->relu().max() : kNoBound) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    output_ = program->NewValue(inputs[0].image);
    AddForward(program, inputs[0], output_, upper_bound_);
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    return {wanted[0] ? AddBackward(program, output_, gradient, upper_bound_) : Value()};
  }

 private:
  const float upper_bound_;
  Value output_;
};

}  // namespace

void AddRelu(Program* program, const Value& value) { AddForward(program, value, value, kNoBound); }

Value AddReluBackward(Program* program, const Value& output, const Value& gradient) {
  return AddBackward(program, output, gradient, kNoBound);
}

std::unique_ptr<Layer> MakeRelu(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<Relu>(spec);
}

}  // namespace tern::engine::cuda
