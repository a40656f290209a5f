// Batch norm on a GPU. An addition and a ReLU that follow the batch norm run in the same kernels.
// If the convolution before it has added up the channels, the norm makes one pass less, and another
// one less if the convolution behind it computes its output.
#include "kernels/nn/batch_norm.h"

#include "kernels/nn/conv.h"
#include "kernels/nn/device_images.h"
#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {
namespace {

class BatchNorm : public Layer {
 public:
  BatchNorm(const LayerSpec& spec, const Inputs& inputs)
      : spec_(spec),
        norm_{ImagesOf(spec.batch, spec.output).pixels(),
              spec.output.c,
              spec.def->batch_norm().epsilon(),
              spec.def->batch_norm().momentum(),
              spec.has_relu,
              spec.is_frozen},
        step_(inputs.step) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    state_ = program->NewArray(kernels::NormArrays::kArrays * norm_.channels * sizeof(float));
    counters_ = program->NewLastingArray(kernels::CountersOf(norm_.channels) * sizeof(uint32_t));
    input_ = inputs[0];
    if (spec_.leaves_output) return ForwardForReader(program);
    output_ = program->NewValue(spec_.output);
    std::vector<Value> values = {state_, NewPartialSums(program), counters_, input_, output_};
    const bool has_addend = AddsSecondInput(), has_sums = input_.sums_buffer >= 0;
    if (has_addend) values.push_back(inputs[1]);
    if (has_sums) values.push_back(SumsOf(input_));
    program->Call("batch norm", values,
                  [spec = spec_, norm = norm_, type = program->type(), has_addend, has_sums](
                      auto stream, const auto& data) {
                    kernels::DeviceNormState state = StateOf(spec, data);
                    if (has_sums) state.sums = static_cast<const float*>(data.back());
                    return kernels::BatchNormForwardOnDevice(
                        stream, type, norm, state, spec.is_training && !spec.is_frozen, data[3],
                        has_addend ? data[5] : nullptr, data[4]);
                  });
    return output_;
  }

  // If a second input was added before the ReLU, the gradient of the second input is the output's
  // gradient, set to 0 where the ReLU's output is 0. The kernel writes it to added_gradient.
  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    const bool masks_gradient = AddsSecondInput() && spec_.has_relu;
    Value added_gradient = masks_gradient ? program->InPlaceOrNew(gradient) : gradient;
    added_gradient.is_shared |= AddsSecondInput();
    const Value input_gradient = program->InPlaceOrNew(added_gradient);
    std::vector<Value> values = {state_,   NewPartialSums(program), counters_, input_,
                                 gradient, input_gradient};
    if (masks_gradient) values.insert(values.end(), {output_, added_gradient});
    program->Call("batch norm, backward", values,
                  [spec = spec_, norm = norm_, type = program->type(), step = step_](
                      auto stream, const auto& data) {
                    kernels::DeviceNormBackward norm_arrays{data[3], data[4]};
                    if (data.size() > 6) norm_arrays.y = data[6], norm_arrays.g = data[7];
                    const kernels::NormArrays arrays = ArraysOf(spec, data);
                    if (spec.leaves_gradient)
                      norm_arrays.products = arrays.products, norm_arrays.sums = arrays.sums;
                    return kernels::BatchNormBackwardOnDevice(
                        stream, type, norm, StateOf(spec, data), norm_arrays, step, arrays.slope,
                        data[5], spec.parameters[0].gradient, spec.parameters[1].gradient);
                  });
    std::vector<Value> gradients = {input_gradient};
    if (AddsSecondInput()) gradients.push_back(added_gradient);
    gradients.resize(wanted.size());
    return gradients;
  }

 private:
  // Returns the input, with what its reader needs to compute the output.
  Value ForwardForReader(Program* program) {
    const size_t norm_bytes = size_t{2} * norm_.channels * kernels::BytesOf(program->type());
    output_ = input_;
    output_.sums_buffer = -1;
    output_.norm_buffer = program->NewArray(norm_bytes).buffer;
    if (spec_.leaves_gradient) output_.norm_arrays_buffer = state_.buffer;
    std::vector<Value> values = {state_, NewPartialSums(program), counters_, input_,
                                 NormOf(output_)};
    const bool has_sums = input_.sums_buffer >= 0;
    if (has_sums) values.push_back(SumsOf(input_));
    program->Call("scales of a batch norm", values,
                  [spec = spec_, norm = norm_, type = program->type(), has_sums](auto stream,
                                                                                 const auto& data) {
                    kernels::DeviceNormState state = StateOf(spec, data);
                    state.rounded = data[4];
                    if (has_sums) state.sums = static_cast<const float*>(data[5]);
                    return kernels::BatchNormForwardOnDevice(stream, type, norm, state,
                                                             /*is_training=*/true, data[3],
                                                             /*r=*/nullptr, /*y=*/nullptr);
                  });
    return output_;
  }

  // Whether the layer also adds a second input.
  bool AddsSecondInput() const { return spec_.inputs.size() > 1; }

  Value NewPartialSums(Program* program) const {
    return program->NewArray(kernels::PartialSumsOf(norm_.rows, norm_.channels) * sizeof(double));
  }

  static kernels::NormArrays ArraysOf(const LayerSpec& spec, const Program::Data& data) {
    return kernels::NormArraysAt(static_cast<float*>(data[0]), spec.output.c);
  }
  // Returns the parameters, statistics and state arrays of the norm. The first three values of each
  // launch must be state_, partial sums and counters_.
  static kernels::DeviceNormState StateOf(const LayerSpec& spec, const Program::Data& data) {
    kernels::DeviceNormState state;
    state.gamma = spec.parameters[0].values;
    state.beta = spec.parameters[1].values;
    state.running_mean = spec.statistics[0];
    state.running_variance = spec.statistics[1];
    const kernels::NormArrays arrays = ArraysOf(spec, data);
    state.mean = arrays.mean;
    state.scale = arrays.scale;
    state.shift = arrays.shift;
    state.inverse = arrays.inverse;
    state.gain = arrays.gain;
    state.bias = arrays.bias;
    state.workspace = {static_cast<double*>(data[1]), static_cast<uint32_t*>(data[2])};
    return state;
  }

  const LayerSpec spec_;
  const kernels::DeviceNorm norm_;
  const kernels::DeviceStep* const step_;
  // state_ has the arrays of kernels::NormArrays. counters_ are those of the sums.
  Value state_, counters_, input_, output_;
};

}  // namespace

std::unique_ptr<Layer> MakeBatchNorm(const LayerSpec& spec, const Inputs& inputs) {
  return std::make_unique<BatchNorm>(spec, inputs);
}

}  // namespace tern::engine::cuda
