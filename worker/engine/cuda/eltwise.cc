// GELU and multiplication by a constant on a GPU.
#include "kernels/nn/elementwise.h"
#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {
namespace {

uint64_t ElementsOf(const Program& program, const Value& value) {
  return models::Elements(value.image) * program.batch();
}

// The backward pass reads the input.
class Gelu : public Layer {
 public:
  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    input_ = inputs[0];
    const Value output = program->NewValue(input_.image);
    program->Call(
        "GELU", {input_, output},
        [n = ElementsOf(*program, input_), type = program->type()](auto stream, const auto& data) {
          return kernels::GeluForwardOnDevice(stream, type, data[0], n, data[1]);
        });
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Value input_gradient = program->InPlaceOrNew(gradient);
    program->Call(
        "GELU, backward", {input_, gradient, input_gradient},
        [n = ElementsOf(*program, input_), type = program->type()](auto stream, const auto& data) {
          return kernels::GeluBackwardOnDevice(stream, type, data[0], data[1], n, data[2]);
        });
    return {Value{input_.image, input_gradient.buffer, input_gradient.is_shared}};
  }

 private:
  Value input_;
};

class Scale : public Layer {
 public:
  explicit Scale(const LayerSpec& spec) : factor_(spec.def->scale().factor()) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    image_ = inputs[0].image;
    const Value output = program->NewValue(image_);
    Multiply(program, inputs[0], output);
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Value input_gradient = program->InPlaceOrNew(gradient);
    Multiply(program, gradient, input_gradient);
    return {Value{image_, input_gradient.buffer, input_gradient.is_shared}};
  }

 private:
  void Multiply(Program* program, const Value& x, const Value& y) const {
    program->Call("scale", {x, y},
                  [n = models::Elements(image_) * program->batch(), factor = factor_,
                   type = program->type()](auto stream, const auto& data) {
                    return kernels::ScaleOnDevice(stream, type, data[0], n, factor, data[1]);
                  });
  }

  const float factor_;
  models::ImageDims image_;
};

}  // namespace

std::unique_ptr<Layer> MakeGelu(const LayerSpec&, const Inputs&) {
  return std::make_unique<Gelu>();
}
std::unique_ptr<Layer> MakeScale(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<Scale>(spec);
}

}  // namespace tern::engine::cuda
