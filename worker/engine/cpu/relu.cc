// ReLU on its own (after pooling, say), with or without an upper bound, and what layers share that
// apply it themselves.
#include "worker/engine/cpu/layer.h"

namespace tern::engine {
namespace {

using Forwards = dnnl::eltwise_forward;
using Backwards = dnnl::eltwise_backward;

// min(max(x, 0), upper), or without an upper bound. Forms whose backward reads the output instead
// of the input.
struct Shape {
  dnnl::algorithm algorithm = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  float upper = 0;
};

Shape ShapeOf(const pb::ReluDef& def) {
  if (!def.has_max()) return {};
  return {dnnl::algorithm::eltwise_clip_v2_use_dst_for_bwd, def.max()};
}

Forwards::primitive_desc ForwardDesc(const Program& program, const Shape& shape,
                                     const dnnl::memory::desc& desc) {
  return {
      Forwards::desc(dnnl::prop_kind::forward_training, shape.algorithm, desc, 0.f, shape.upper),
      Program::Attributes(), program.engine()};
}

Value AddBackward(Program* program, const Shape& shape, const Value& output,
                  const Value& gradient) {
  const Backwards::primitive_desc backward(
      Backwards::desc(shape.algorithm, output.desc, output.desc, 0.f, shape.upper),
      Program::Attributes(), program->engine(), ForwardDesc(*program, shape, output.desc));
  const Value from = program->Convert(gradient, backward.diff_dst_desc());
  const Value masked = program->InPlace(from);
  program->Run<Backwards>(
      backward, {{DNNL_ARG_DST, output}, {DNNL_ARG_DIFF_DST, from}, {DNNL_ARG_DIFF_SRC, masked}});
  return masked;
}

class Relu : public Layer {
 public:
  explicit Relu(const LayerSpec& spec) : shape_(ShapeOf(spec.def->relu())) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    output_ = program->NewValue(inputs[0].desc);
    program->Run<Forwards>(ForwardDesc(*program, shape_, inputs[0].desc),
                           {{DNNL_ARG_SRC, inputs[0]}, {DNNL_ARG_DST, output_}});
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    return {wanted[0] ? AddBackward(program, shape_, output_, gradient) : Value()};
  }

 private:
  const Shape shape_;
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
  return AddBackward(program, Shape(), output, gradient);
}

std::unique_ptr<Layer> MakeRelu(const LayerSpec& spec) { return std::make_unique<Relu>(spec); }

}  // namespace tern::engine
