// Dropout on a GPU, with the same random numbers as on the CPU. The backward pass computes the
// random numbers again instead of storing them.
#include "kernels/nn/device_images.h"
#include "kernels/nn/elementwise.h"
#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {
namespace {

class Dropout : public Layer {
 public:
  Dropout(const LayerSpec& spec, const Inputs& inputs) : spec_(spec), step_(inputs.step) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    if (!spec_.is_training) return inputs[0];
    const Value output = program->NewValue(spec_.output);
    AddDropout(program, "dropout", inputs[0], output);
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Value input_gradient = program->InPlaceOrNew(gradient);
    AddDropout(program, "dropout, backward", gradient, input_gradient);
    return {input_gradient};
  }

 private:
  void AddDropout(Program* program, const char* what, const Value& input, const Value& output) {
    program->Call(
        what, {input, output},
        [spec = spec_, step = step_, type = program->type()](auto stream, const auto& data) {
          return kernels::DropoutOnDevice(stream, type, data[0], ImagesOf(spec.batch, spec.output),
                                          spec.noise, step, spec.def->dropout().rate(), data[1]);
        });
  }

  const LayerSpec spec_;
  const kernels::DeviceStep* const step_;
};

}  // namespace

std::unique_ptr<Layer> MakeDropout(const LayerSpec& spec, const Inputs& inputs) {
  return std::make_unique<Dropout>(spec, inputs);
}

}  // namespace tern::engine::cuda
