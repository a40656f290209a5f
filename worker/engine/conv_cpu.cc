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
  explicit Conv(const LayerSpec& spec)
      : spec_(spec), places_(PlaceWindow(spec.def->conv(), spec.input())) {
    const pb::ConvDef& def = spec.def->conv();
    const memory::dim groups = def.groups(), kernel = def.kernel();
    const memory::dim outputs = def.outputs() / groups, inputs = spec.input().c / groups;
    memory::dims dims = {outputs, inputs, kernel, kernel};
    if (groups > 1) dims.insert(dims.begin(), groups);
    weight_any_ = Plain(dims, Tag::any);
    weight_ = {Plain(dims, groups > 1 ? Tag::goihw : Tag::oihw), -1, spec.parameters[0].values};
    if (!def.bias()) return;
    bias_ = {Plain({def.outputs()}, Tag::x), -1, spec.parameters[1].values};
  }

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const auto kind =
        spec_.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    forward_ = MakeWithLayout([&](Tag tag) {
      // A bias of no dimensions is none.
      const Forwards::desc desc(kind, kDirect, Input(tag), weight_any_, bias_.desc, Output(tag),
                                places_.strides, places_.dilates, places_.pad_begin,
                                places_.pad_end);
      return Forwards::primitive_desc(desc, AttributesWithRelu(spec_.relu), program->engine());
    });
    input_ = program->Convert(inputs[0], forward_.src_desc());
    output_ = program->NewValue(forward_.dst_desc());
    const Value weight = program->Convert(weight_, forward_.weights_desc());
    program->Run<Forwards>(
        forward_,
        WithBias(DNNL_ARG_BIAS, bias_.outside,
                 {{DNNL_ARG_SRC, input_}, {DNNL_ARG_WEIGHTS, weight}, {DNNL_ARG_DST, output_}}));
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    Value masked = gradient;
    if (spec_.relu) masked = AddReluBackward(program, output_, gradient);
    AddBackwardWeights(program, masked);
    return {wanted[0] ? AddBackwardData(program, masked) : Value()};
  }

 private:
  memory::desc Input(Tag tag) const { return Plain(DimsOf(spec_.batch, spec_.input()), tag); }
  memory::desc Output(Tag tag) const { return Plain(DimsOf(spec_.batch, spec_.output), tag); }

  // Where the layer has one.
  Program::Arguments WithBias(int kind, float* bias, Program::Arguments arguments) const {
    if (spec_.def->conv().bias()) arguments.push_back({kind, {bias_.desc, -1, bias}});
    return arguments;
  }

  void AddBackwardWeights(Program* program, const Value& gradient) {
    const auto backward = MakeWithLayout([&](Tag tag) {
      const BackwardWeights::desc desc(kDirect, Input(tag), weight_any_, bias_.desc, Output(tag),
                                       places_.strides, places_.dilates, places_.pad_begin,
                                       places_.pad_end);
      return BackwardWeights::primitive_desc(desc, Program::Attributes(), program->engine(),
                                             forward_);
    });
    const Value weight_gradient = {weight_.desc, -1, spec_.parameters[0].gradient};
    Value weight = weight_gradient;
    const bool direct = SameBytes(backward.diff_weights_desc(), weight.desc);
    if (!direct) weight = program->NewValue(backward.diff_weights_desc());
    const bool bias = spec_.def->conv().bias();
    program->Run<BackwardWeights>(
        backward,
        WithBias(DNNL_ARG_DIFF_BIAS, bias ? spec_.parameters[1].gradient : nullptr,
                 {{DNNL_ARG_SRC, program->Convert(input_, backward.src_desc())},
                  {DNNL_ARG_DIFF_DST, program->Convert(gradient, backward.diff_dst_desc())},
                  {DNNL_ARG_DIFF_WEIGHTS, weight}}));
    if (!direct) program->Copy(weight, weight_gradient);
  }

  Value AddBackwardData(Program* program, const Value& gradient) {
    const auto backward = MakeWithLayout([&](Tag tag) {
      const BackwardData::desc desc(kDirect, Input(tag), weight_any_, Output(tag), places_.strides,
                                    places_.dilates, places_.pad_begin, places_.pad_end);
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
  const WindowPlaces places_;
  memory::desc weight_any_;
  Value weight_, bias_;
  Forwards::primitive_desc forward_;
  Value input_, output_;
};

}  // namespace

std::unique_ptr<Layer> MakeConv(const LayerSpec& spec) { return std::make_unique<Conv>(spec); }

}  // namespace tern::engine
