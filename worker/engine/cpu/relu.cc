// ReLU as a separate layer (for example after pooling) on the CPU, with or without an upper bound,
// and the functions for layers that compute a following ReLU themselves.
#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using ForwardEltwise = dnnl::eltwise_forward;
using BackwardEltwise = dnnl::eltwise_backward;

// The function max(x, 0) or, with an upper bound, min(max(x, 0), upper_bound). The backward pass of
// these oneDNN algorithms reads the output instead of the input.
struct ReluParameters {
  dnnl::algorithm algorithm = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  float upper_bound = 0;
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

class Relu : public Layer {
 public:
  explicit Relu(const LayerSpec& spec) : parameters_(ParametersOf(spec.def->relu())) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    output_ = program->NewValue(inputs[0].desc);
    program->Run<ForwardEltwise>(ForwardDesc(*program, parameters_, inputs[0].desc),
                                 {{DNNL_ARG_SRC, inputs[0]}, {DNNL_ARG_DST, output_}});
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

dnnl::primitive_attr AttributesWithRelu(bool has_relu) {
  dnnl::primitive_attr attributes = Program::Attributes();
  if (!has_relu) return attributes;
  dnnl::post_ops post_ops;
  post_ops.append_eltwise(/*scale=*/1.f, dnnl::algorithm::eltwise_relu, /*alpha=*/0.f,
                          /*beta=*/0.f);
  attributes.set_post_ops(post_ops);
  return attributes;
}

Value AddReluBackward(Program* program, const Value& output, const Value& gradient) {
  return AddBackward(program, ReluParameters(), output, gradient);
}

std::unique_ptr<Layer> MakeRelu(const LayerSpec& spec) { return std::make_unique<Relu>(spec); }

}  // namespace tern::engine
