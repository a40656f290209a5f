// GELU and multiplication by a constant on the CPU, by oneDNN's eltwise primitives.
#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using ForwardEltwise = dnnl::eltwise_forward;
using BackwardEltwise = dnnl::eltwise_backward;

// The function `algorithm` of oneDNN with its parameter alpha. The backward pass reads the input.
class Eltwise : public Layer {
 public:
  explicit Eltwise(dnnl::algorithm algorithm, float alpha = 0)
      : algorithm_(algorithm), alpha_(alpha) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    input_ = inputs[0];
    const Value output = program->NewValue(input_.desc);
    program->Run<ForwardEltwise>(ForwardDesc(*program),
                                 {{DNNL_ARG_SRC, input_}, {DNNL_ARG_DST, output}});
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const BackwardEltwise::primitive_desc backward(
        BackwardEltwise::desc(algorithm_, input_.desc, input_.desc, alpha_, 0.f),
        Program::Attributes(), program->engine(), ForwardDesc(*program));
    const Value converted_gradient = program->Convert(gradient, backward.diff_dst_desc());
    const Value input_gradient = program->InPlaceOrNew(converted_gradient);
    program->Run<BackwardEltwise>(backward, {{DNNL_ARG_SRC, input_},
                                             {DNNL_ARG_DIFF_DST, converted_gradient},
                                             {DNNL_ARG_DIFF_SRC, input_gradient}});
    return {input_gradient};
  }

 private:
  ForwardEltwise::primitive_desc ForwardDesc(const Program& program) const {
    return {ForwardEltwise::desc(dnnl::prop_kind::forward_training, algorithm_, input_.desc, alpha_,
                                 0.f),
            Program::Attributes(), program.engine()};
  }

  const dnnl::algorithm algorithm_;
  const float alpha_;
  Value input_;
};

}  // namespace

std::unique_ptr<Layer> MakeGelu(const LayerSpec&) {
  return std::make_unique<Eltwise>(dnnl::algorithm::eltwise_gelu_erf);
}
std::unique_ptr<Layer> MakeScale(const LayerSpec& spec) {
  return std::make_unique<Eltwise>(dnnl::algorithm::eltwise_linear, spec.def->scale().factor());
}

}  // namespace tern::engine
