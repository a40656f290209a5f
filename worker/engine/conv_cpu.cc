// Convolution. Activations are NHWC, which oneDNN's fastest float kernels take for any number of
// channels; weights are in its own blocked layout, copied from and to the canonical arenas.
#include "worker/engine/layer_cpu.h"

namespace tern::engine {
namespace {

using dnnl::memory;
using Tag = dnnl::memory::format_tag;
using Forwards = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

class Conv : public Layer {
 public:
  explicit Conv(const LayerSpec& spec) : spec_(spec) {
    const pb::ConvDef& def = spec.def->conv();
    // Sizes were checked when the net's shapes were inferred.
    const auto rows = models::PlanAxis(spec.input.h, def.kernel(), def.stride(), def.padding());
    const auto columns = models::PlanAxis(spec.input.w, def.kernel(), def.stride(), def.padding());
    strides_ = {def.stride(), def.stride()};
    pad_begin_ = {rows->pad_begin, columns->pad_begin};
    pad_end_ = {rows->pad_end, columns->pad_end};
    const memory::dims weight_dims = {def.outputs(), spec.input.c, def.kernel(), def.kernel()};
    weight_any_ = Plain(weight_dims, Tag::any);
    weight_ = {Plain(weight_dims, Tag::oihw), -1, spec.weight_values};
    bias_ = {Plain({def.outputs()}, Tag::x), -1, spec.bias_values};
  }

  Value Forward(Program* program, const Value& input) override {
    const auto kind =
        spec_.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    forward_ = MakeWithLayout([&](Tag tag) {
      const Forwards::desc desc(kind, kDirect, Input(tag), weight_any_, bias_.desc, Output(tag),
                                strides_, pad_begin_, pad_end_);
      return Forwards::primitive_desc(desc, AttributesWithRelu(spec_.relu), program->engine());
    });
    input_ = program->Convert(input, forward_.src_desc());
    output_ = program->NewValue(forward_.dst_desc());
    const Value weight = program->Convert(weight_, forward_.weights_desc());
    program->Run<Forwards>(forward_, {{DNNL_ARG_SRC, input_},
                                      {DNNL_ARG_WEIGHTS, weight},
                                      {DNNL_ARG_BIAS, bias_},
                                      {DNNL_ARG_DST, output_}});
    return output_;
  }

  Value Backward(Program* program, const Value& gradient, bool wanted) override {
    Value masked = gradient;
    if (spec_.relu) masked = AddReluBackward(program, output_, gradient);
    AddBackwardWeights(program, masked);
    return wanted ? AddBackwardData(program, masked) : Value();
  }

 private:
  memory::desc Input(Tag tag) const { return Plain(DimsOf(spec_.batch, spec_.input), tag); }
  memory::desc Output(Tag tag) const { return Plain(DimsOf(spec_.batch, spec_.output), tag); }

  void AddBackwardWeights(Program* program, const Value& gradient) {
    const auto backward = MakeWithLayout([&](Tag tag) {
      const BackwardWeights::desc desc(kDirect, Input(tag), weight_any_, bias_.desc, Output(tag),
                                       strides_, pad_begin_, pad_end_);
      return BackwardWeights::primitive_desc(desc, Program::Attributes(), program->engine(),
                                             forward_);
    });
    const Value weight_gradient = {weight_.desc, -1, spec_.weight_gradient};
    Value weight = weight_gradient;
    const bool direct = SameBytes(backward.diff_weights_desc(), weight.desc);
    if (!direct) weight = program->NewValue(backward.diff_weights_desc());
    program->Run<BackwardWeights>(
        backward, {{DNNL_ARG_SRC, program->Convert(input_, backward.src_desc())},
                   {DNNL_ARG_DIFF_DST, program->Convert(gradient, backward.diff_dst_desc())},
                   {DNNL_ARG_DIFF_WEIGHTS, weight},
                   {DNNL_ARG_DIFF_BIAS, {bias_.desc, -1, spec_.bias_gradient}}});
    if (!direct) program->Copy(weight, weight_gradient);
    program->Ready(spec_.bias);
    program->Ready(spec_.weight);
  }

  Value AddBackwardData(Program* program, const Value& gradient) {
    const auto backward = MakeWithLayout([&](Tag tag) {
      const BackwardData::desc desc(kDirect, Input(tag), weight_any_, Output(tag), strides_,
                                    pad_begin_, pad_end_);
      return BackwardData::primitive_desc(desc, Program::Attributes(), program->engine(), forward_);
    });
    const Value weight = program->Convert(weight_, backward.weights_desc());
    const Value input_gradient = program->NewValue(backward.diff_src_desc());
    program->Run<BackwardData>(
        backward, {{DNNL_ARG_DIFF_DST, program->Convert(gradient, backward.diff_dst_desc())},
                   {DNNL_ARG_WEIGHTS, weight},
                   {DNNL_ARG_DIFF_SRC, input_gradient}});
    return input_gradient;
  }

  const LayerSpec spec_;
  memory::dims strides_, pad_begin_, pad_end_;
  memory::desc weight_any_;
  Value weight_, bias_;
  Forwards::primitive_desc forward_;
  Value input_, output_;
};

}  // namespace

std::unique_ptr<Layer> MakeConv(const LayerSpec& spec) { return std::make_unique<Conv>(spec); }

}  // namespace tern::engine
