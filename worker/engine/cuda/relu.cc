// ReLU as a separate layer on a GPU, with or without an upper bound, and the backward pass of a
// ReLU that another layer computes.
#include <limits>

#include "kernels/nn/elementwise.h"
#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {
namespace {

constexpr float kNoBound = std::numeric_limits<float>::infinity();

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
    const uint64_t num_elements = models::Elements(output_.image) * program->batch();
    program->Call("ReLU", {inputs[0], output_},
                  [num_elements, upper_bound = upper_bound_, type = program->type()](
                      auto stream, const auto& data) {
                    return kernels::ReluForwardOnDevice(stream, type, data[0], num_elements,
                                                        upper_bound, data[1]);
                  });
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

Value AddReluBackward(Program* program, const Value& output, const Value& gradient) {
  return AddBackward(program, output, gradient, kNoBound);
}

std::unique_ptr<Layer> MakeRelu(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<Relu>(spec);
}

}  // namespace tern::engine::cuda
