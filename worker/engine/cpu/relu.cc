// ReLU as a separate layer (for example after pooling) on the CPU, with or without an upper bound,
// and the functions for layers that compute a following ReLU themselves.
#include <algorithm>
#include <limits>

#include "kernels/nn/elementwise.h"
#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using ForwardEltwise = dnnl::eltwise_forward;
using BackwardEltwise = dnnl::eltwise_backward;

// The function max(x, 0) or, with an upper bound, min(max(x, 0), upper_bound). `algorithm` is
// oneDNN's for the backward pass, which reads the output instead of the input.
struct ReluParameters {
  dnnl::algorithm algorithm = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  float upper_bound = std::numeric_limits<float>::infinity();
};

ReluParameters ParametersOf(const pb::ReluDef& def) {
  if (!def.has_max()) return {};
  return {dnnl::algorithm::eltwise_clip_v2_use_dst_for_bwd, def.max()};
}

ForwardEltwise::primitive_desc ForwardDesc(const Program& program, const ReluParameters& parameters,
                                           const dnnl::memory::desc& desc) {
  return {ForwardEltwise::desc(dnnl::prop_kind::forward_training, parameters.algorithm, desc, 0.f,
                               parameters.upper_bound),
          Program::Attributes(), program.engine()};
}

Value AddBackward(Program* program, const ReluParameters& parameters, const Value& output,
                  const Value& gradient) {
  const BackwardEltwise::primitive_desc backward(
      BackwardEltwise::desc(parameters.algorithm, output.desc, output.desc, 0.f,
                            parameters.upper_bound),
      Program::Attributes(), program->engine(), ForwardDesc(*program, parameters, output.desc));
  const Value converted_gradient = program->Convert(gradient, backward.diff_dst_desc());
  const Value masked_gradient = program->InPlaceOrNew(converted_gradient);
  program->Run<BackwardEltwise>(backward, {{DNNL_ARG_DST, output},
                                           {DNNL_ARG_DIFF_DST, converted_gradient},
                                           {DNNL_ARG_DIFF_SRC, masked_gradient}});
  return masked_gradient;
}

// Appends the forward step; `output` may be `input`.
void AddForward(Program* program, const ReluParameters& parameters, const Value& input,
                const Value& output) {
  const size_t num_elements = input.desc.get_size() / sizeof(float);
  program->Call({input, output},
                [num_elements, upper_bound = parameters.upper_bound](const auto& data) {
                  constexpr size_t kBlock = 8192;  // elements that a thread computes at a time
#pragma omp parallel for
                  for (size_t first = 0; first < num_elements; first += kBlock)
                    kernels::ReluForward(data[0] + first, std::min(kBlock, num_elements - first),
                                         upper_bound, data[1] + first);
                });
}

class Relu : public Layer {
 public:
  explicit Relu(const LayerSpec& spec) : parameters_(ParametersOf(spec.def->relu())) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    output_ = program->NewValue(inputs[0].desc);
    AddForward(program, parameters_, inputs[0], output_);
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    return {wanted[0] ? AddBackward(program, parameters_, output_, gradient) : Value()};
  }

 private:
  const ReluParameters parameters_;
  Value output_;
};

}  // namespace

void AddRelu(Program* program, const Value& value) {
  AddForward(program, ReluParameters(), value, value);
}

Value AddReluBackward(Program* program, const Value& output, const Value& gradient) {
  return AddBackward(program, ReluParameters(), output, gradient);
}

std::unique_ptr<Layer> MakeRelu(const LayerSpec& spec) { return std::make_unique<Relu>(spec); }

}  // namespace tern::engine
