// Convolution. Of oneDNN's kernels the first of a list that suits the layer; 3 x 3 windows by
// Winograd's algorithm F(4 x 4, 3 x 3) (Lavin and Gray 2016), a quarter of the multiplications.
// Weights are in oneDNN's own layouts, copied from and to the canonical arenas.
#include "worker/engine/cpu/layer.h"

namespace tern::engine {
namespace {

using dnnl::memory;
using Tag = dnnl::memory::format_tag;
using Forwards = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

// A way to run it: what the images before and behind it look like, and how it multiplies.
struct Way {
  Tag input, output;
  dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
};

// Winograd's algorithm pays where both sides have so many channels: for images and their gradients;
// for the gradient of the weights, whose sums are over fewer places.
constexpr uint32_t kWinogradOfImages = 32, kWinogradOfWeights = 64;

// Best first; measured on AVX-512.
std::vector<Way> WaysFor(const LayerSpec& spec, uint32_t winograd_from) {
  const pb::ConvDef& def = spec.def->conv();
  const uint32_t from = spec.input().c, to = spec.output.c;
  const Tag input = ActivationTag(from), output = ActivationTag(to);
  const bool blocked = input == kBlocked && output == kBlocked;
  std::vector<Way> ways;
  const bool winograd = !MultipliesBf16(spec) && def.kernel() == 3 && def.stride() == 1 &&
                        def.groups() == 1 && def.dilation() == 1 && from >= winograd_from &&
                        to >= winograd_from;
  if (blocked && winograd) ways.push_back({input, output, dnnl::algorithm::convolution_winograd});
  if (from == 16 && to == 16) ways.push_back({Tag::nhwc, Tag::nhwc});
  if (from <= 3) ways.push_back({Tag::nchw, output});
  ways.push_back({input, output});
  ways.push_back({Tag::nhwc, Tag::nhwc});
  ways.push_back({Tag::any, Tag::any});
  return ways;
}

// make(way) of the first way that oneDNN has more than a readable implementation for; the last way
// at any rate.
template <typename MakeDesc>
auto FirstOf(const std::vector<Way>& ways, const MakeDesc& make) {
  auto desc = make(ways.front());
  for (size_t i = 1; i < ways.size() && (!desc || IsReference(desc)); ++i) desc = make(ways[i]);
  return desc;
}

class Conv : public Layer {
 public:
  explicit Conv(const LayerSpec& spec)
      : spec_(spec), places_(PlaceWindow(spec.def->conv(), spec.input())) {
    const pb::ConvDef& def = spec.def->conv();
    const memory::dim groups = def.groups(), kernel = def.kernel();
    const memory::dim outputs = def.outputs() / groups, inputs = spec.input().c / groups;
    memory::dims dims = {outputs, inputs, kernel, kernel};
    if (groups > 1) dims.insert(dims.begin(), groups);
    weight_any_ = Plain(dims, Tag::any, FactorType(spec));
    weight_gradient_any_ = Plain(dims, Tag::any);
    weight_ = {Plain(dims, groups > 1 ? Tag::goihw : Tag::oihw), -1, spec.parameters[0].values};
    if (!def.bias()) return;
    bias_ = {Plain({def.outputs()}, Tag::x), -1, spec.parameters[1].values};
  }

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const auto kind =
        spec_.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    forward_ = FirstOf(WaysFor(spec_, kWinogradOfImages), [&](const Way& way) {
      // A bias of no dimensions is none.
      const Forwards::desc desc(kind, way.algorithm, Input(way, true), weight_any_, bias_.desc,
                                Output(way, false), places_.strides, places_.dilates,
                                places_.pad_begin, places_.pad_end);
      return Forwards::primitive_desc(desc, AttributesWithRelu(spec_.relu), program->engine(),
                                      kAllowEmpty);
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
  static constexpr bool kAllowEmpty = true;  // a description that oneDNN has nothing for: no error

  // As a factor (of FactorType), or as what comes out of the sums (fp32).
  memory::desc Input(const Way& way, bool factor) const {
    return Plain(DimsOf(spec_.batch, spec_.input()), way.input, TypeOf(factor));
  }
  memory::desc Output(const Way& way, bool factor) const {
    return Plain(DimsOf(spec_.batch, spec_.output), way.output, TypeOf(factor));
  }
  memory::data_type TypeOf(bool factor) const {
    return factor ? FactorType(spec_) : memory::data_type::f32;
  }

  // Where the layer has one.
  Program::Arguments WithBias(int kind, float* bias, Program::Arguments arguments) const {
    if (spec_.def->conv().bias()) arguments.push_back({kind, {bias_.desc, -1, bias}});
    return arguments;
  }

  void AddBackwardWeights(Program* program, const Value& gradient) {
    const auto backward = FirstOf(WaysFor(spec_, kWinogradOfWeights), [&](const Way& way) {
      const BackwardWeights::desc desc(way.algorithm, Input(way, true), weight_gradient_any_,
                                       bias_.desc, Output(way, true), places_.strides,
                                       places_.dilates, places_.pad_begin, places_.pad_end);
      return BackwardWeights::primitive_desc(desc, Program::Attributes(), program->engine(),
                                             forward_, kAllowEmpty);
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
    const auto backward = FirstOf(WaysFor(spec_, kWinogradOfImages), [&](const Way& way) {
      const BackwardData::desc desc(way.algorithm, Input(way, false), weight_any_,
                                    Output(way, true), places_.strides, places_.dilates,
                                    places_.pad_begin, places_.pad_end);
      return BackwardData::primitive_desc(desc, Program::Attributes(), program->engine(), forward_,
                                          kAllowEmpty);
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
  memory::desc weight_any_, weight_gradient_any_;
  Value weight_, bias_;
  Forwards::primitive_desc forward_;
  Value input_, output_;
};

}  // namespace

std::unique_ptr<Layer> MakeConv(const LayerSpec& spec) {
  if (SuitsWinograd(spec)) return MakeWinograd(spec);
  return std::make_unique<Conv>(spec);
}

}  // namespace tern::engine
