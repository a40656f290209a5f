// Standardization on a GPU: scales each image to mean 0 and standard deviation 1.
#include "kernels/nn/rows.h"
#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {
namespace {

class Standardize : public Layer {
 public:
  explicit Standardize(const LayerSpec& spec)
      : spec_(spec), image_elements_(models::Elements(spec.output)) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    output_ = program->NewValue(spec_.output);
    scales_ = program->NewArray(spec_.batch * sizeof(float));
    program->Call("standardize", {inputs[0], output_, scales_},
                  [batch = spec_.batch, n = image_elements_, type = program->type()](
                      auto stream, const auto& data) {
                    return kernels::StandardizeForwardOnDevice(
                        stream, type, data[0], batch, n, data[1], static_cast<float*>(data[2]));
                  });
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Value input_gradient = program->NewValue(spec_.output);
    program->Call("standardize, backward", {output_, gradient, scales_, input_gradient},
                  [batch = spec_.batch, n = image_elements_, type = program->type()](
                      auto stream, const auto& data) {
                    return kernels::StandardizeBackwardOnDevice(stream, type, data[0], data[1],
                                                                static_cast<const float*>(data[2]),
                                                                batch, n, data[3]);
                  });
    return {input_gradient};
  }

 private:
  const LayerSpec spec_;
  const uint64_t image_elements_;  // The number of elements of one image.
  Value output_, scales_;
};

}  // namespace

std::unique_ptr<Layer> MakeStandardize(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<Standardize>(spec);
}

}  // namespace tern::engine::cuda
