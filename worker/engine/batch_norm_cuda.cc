// Batch norm, with the addition and the ReLU behind it in the same pass.
#include "worker/engine/layer_cuda.h"

namespace tern::engine::cuda {
namespace {

class BatchNorm : public Layer {
 public:
  explicit BatchNorm(const LayerSpec& spec)
      : spec_(spec),
        norm_{ImagesOf(spec.batch, spec.output).pixels(), spec.output.c,
              spec.def->batch_norm().epsilon(), spec.def->batch_norm().momentum()} {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const size_t channels = size_t{spec_.output.c} * sizeof(float);
    state_ = program->NewArray(4 * channels);
    partial_ =
        program->NewArray(size_t{2} * norm_.channels * kernels::kNormPartials * sizeof(double));
    input_ = inputs[0];
    output_ = program->NewValue(spec_.output);
    std::vector<Value> values = {state_, partial_, input_, output_};
    if (Adds()) values.push_back(inputs[1]);
    program->Call(
        "batch norm", values, [spec = spec_, norm = norm_](auto stream, const auto& data) {
          return kernels::BatchNormForwardOnDevice(stream, norm, StateOf(spec, data), spec.training,
                                                   data[2], data.size() > 4 ? data[4] : nullptr,
                                                   spec.relu, data[3]);
        });
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    Value passed = spec_.relu ? program->InPlace(gradient) : gradient;
    passed.shared |= Adds();
    const Value input_gradient = program->InPlace(passed);
    program->Call("batch norm, backward",
                  {state_, partial_, input_, output_, gradient, passed, input_gradient},
                  [spec = spec_, norm = norm_](auto stream, const auto& data) {
                    return kernels::BatchNormBackwardOnDevice(
                        stream, norm, StateOf(spec, data), data[2], data[3], data[4], spec.relu,
                        data[5], data[6], spec.parameters[0].gradient, spec.parameters[1].gradient);
                  });
    std::vector<Value> gradients = {input_gradient};
    if (Adds()) gradients.push_back(passed);
    gradients.resize(wanted.size());
    return gradients;
  }

 private:
  bool Adds() const { return spec_.inputs.size() > 1; }

  // What lies in the two first arrays of each launch.
  static kernels::DeviceNormState StateOf(const LayerSpec& spec, const std::vector<float*>& data) {
    kernels::DeviceNormState state;
    state.gamma = spec.parameters[0].values;
    state.beta = spec.parameters[1].values;
    state.running_mean = spec.statistics[0];
    state.running_variance = spec.statistics[1];
    state.mean = data[0];
    state.scale = state.mean + spec.output.c;
    state.shift = state.scale + spec.output.c;
    state.inverse = state.shift + spec.output.c;
    state.partial = reinterpret_cast<double*>(data[1]);
    return state;
  }

  const LayerSpec spec_;
  const kernels::DeviceNorm norm_;
  Value state_, partial_, input_, output_;
};

}  // namespace

std::unique_ptr<Layer> MakeBatchNorm(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<BatchNorm>(spec);
}

}  // namespace tern::engine::cuda
