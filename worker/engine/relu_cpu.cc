// ReLU on its own (after pooling, say), and what layers share that apply it themselves.
#include "worker/engine/layer_cpu.h"

namespace tern::engine {
namespace {

using Forwards = dnnl::eltwise_forward;
using Backwards = dnnl::eltwise_backward;

// The same function as eltwise_relu; its backward reads the output instead of the input.
constexpr auto kRelu = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;

Forwards::primitive_desc ForwardDesc(const Program& program, const dnnl::memory::desc& desc) {
  return {Forwards::desc(dnnl::prop_kind::forward_training, kRelu, desc, 0.f),
          Program::Attributes(), program.engine()};
}

class Relu : public Layer {
 public:
  Value Forward(Program* program, const Value& input) override {
    output_ = program->NewValue(input.desc);
    program->Run<Forwards>(ForwardDesc(*program, input.desc),
                           {{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output_}});
    return output_;
  }

  Value Backward(Program* program, const Value& gradient, bool /*wanted*/) override {
    return AddReluBackward(program, output_, gradient);
  }

 private:
  Value output_;
};

}  // namespace

dnnl::primitive_attr AttributesWithRelu(bool relu) {
  dnnl::primitive_attr attributes = Program::Attributes();
  if (!relu) return attributes;
  dnnl::post_ops after;
  after.append_eltwise(/*scale=*/1.f, dnnl::algorithm::eltwise_relu, /*alpha=*/0.f, /*beta=*/0.f);
  attributes.set_post_ops(after);
  return attributes;
}

Value AddReluBackward(Program* program, const Value& output, const Value& gradient) {
  const Backwards::primitive_desc backward(Backwards::desc(kRelu, output.desc, output.desc, 0.f),
                                           Program::Attributes(), program->engine(),
                                           ForwardDesc(*program, output.desc));
  const Value masked = program->Convert(gradient, backward.diff_dst_desc());
  program->Run<Backwards>(
      backward, {{DNNL_ARG_DST, output}, {DNNL_ARG_DIFF_DST, masked}, {DNNL_ARG_DIFF_SRC, masked}});
  return masked;
}

std::unique_ptr<Layer> MakeRelu(const LayerSpec&) { return std::make_unique<Relu>(); }

}  // namespace tern::engine
