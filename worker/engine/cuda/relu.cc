// ReLU as a separate layer on a GPU, with or without an upper bound, and the backward pass of a
// ReLU that another layer computes.
#include <limits>

#include "kernels/nn/elementwise.h"
#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {
namespace {

constexpr float kNoBound = std::numeric_limits<float>::infinity();

Value AddBackward(Program* program, const Value& output, const Value& gradient, float upper) {
  const Value masked = program->InPlace(gradient);
  const uint64_t n = models::Elements(output.image) * program->batch();
  program->Call("ReLU, backward", {output, gradient, masked},
                [n, upper, type = program->type()](auto stream, const auto& data) {
                  return kernels::ReluBackwardOnDevice(stream, type, data[0], data[1], n, upper,
                                                       data[2]);
                });
  return {output.image, masked.buffer, masked.shared};
}

class Relu : public Layer {
 public:
  explicit Relu(const LayerSpec& spec)
      : upper_(spec.def->relu().has_max() ? spec.def->relu().max() : kNoBound) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    output_ = program->NewValue(inputs[0].image);
    const uint64_t n = models::Elements(output_.image) * program->batch();
    program->Call("ReLU", {inputs[0], output_},
                  [n, upper = upper_, type = program->type()](auto stream, const auto& data) {
                    return kernels::ReluForwardOnDevice(stream, type, data[0], n, upper, data[1]);
                  });
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    return {wanted[0] ? AddBackward(program, output_, gradient, upper_) : Value()};
  }

 private:
  const float upper_;
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
