// Dropout: what each element was multiplied by is kept for the way back. The same draws as on the
// CPU.
#include "worker/engine/layer_cuda.h"

namespace tern::engine::cuda {
namespace {

class Dropout : public Layer {
 public:
  Dropout(const LayerSpec& spec, const uint64_t* step) : spec_(spec), step_(step) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    if (!spec_.training) return inputs[0];
    const Value output = program->NewValue(spec_.output);
    factors_ = program->NewValue(spec_.output);
    program->Call("dropout", {inputs[0], factors_, output},
                  [spec = spec_, step = step_](auto stream, const auto& data) {
                    kernels::NoiseKey key = spec.noise;
                    key.round = *step;
                    return kernels::DropoutOnDevice(stream, data[0],
                                                    ImagesOf(spec.batch, spec.output), key,
                                                    spec.def->dropout().rate(), data[1], data[2]);
                  });
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Value to = program->InPlace(gradient);
    program->Call("dropout, backward", {gradient, factors_, to},
                  [n = ImagesOf(spec_.batch, spec_.output).size()](auto stream, const auto& data) {
                    return kernels::MultiplyOnDevice(stream, data[0], data[1], n, data[2]);
                  });
    return {to};
  }

 private:
  const LayerSpec spec_;
  const uint64_t* step_;
  Value factors_;
};

}  // namespace

std::unique_ptr<Layer> MakeDropout(const LayerSpec& spec, const Inputs& inputs) {
  return std::make_unique<Dropout>(spec, inputs.step);
}

}  // namespace tern::engine::cuda
