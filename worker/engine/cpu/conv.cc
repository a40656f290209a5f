// Convolution on the CPU, by oneDNN. Tries a list of variants (layouts and algorithms), and takes
// the first for which oneDNN has a fast implementation. 3 x 3 convolutions of many channels use
// Winograd's algorithm F(4 x 4, 3 x 3) (Lavin and Gray 2016), which needs a quarter of the
// multiplications. MakeConv leaves 5 x 5 convolutions that suit such an algorithm to winograd.cc.
// In every step, weights and their gradients are copied between the caller's row-major arrays and
// oneDNN's layouts where these differ.
#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using dnnl::memory;
using Tag = dnnl::memory::format_tag;
using ForwardConv = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

// A variant of a convolution: the layouts of input and output, and the algorithm.
struct Variant {
  Tag input, output;
  dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
};

// oneDNN's Winograd algorithm is faster if input and output have at least this many channels. The
// first limit is for the output images and the gradients of the input images, the second for the
// gradients of the weights.
constexpr uint32_t kWinogradMinForImages = 32, kWinogradMinForWeights = 64;

// Returns the variants to try, the fastest first as measured on a CPU with AVX-512. A variant with
// Winograd's algorithm is among them only if input and output have at least `min_winograd_channels`
// channels.
std::vector<Variant> VariantsFor(const LayerSpec& spec, uint32_t min_winograd_channels) {
  const pb::ConvDef& def = spec.def->conv();
  const uint32_t input_channels = spec.input().c, output_channels = spec.output.c;
  const Tag input_tag = ActivationTag(input_channels), output_tag = ActivationTag(output_channels);
  const bool is_blocked = input_tag == kBlocked && output_tag == kBlocked;
  std::vector<Variant> variants;
  const bool suits_winograd = !MultipliesBf16(spec) && def.kernel() == 3 && def.stride() == 1 &&
                              def.groups() == 1 && def.dilation() == 1 &&
                              input_channels >= min_winograd_channels &&
                              output_channels >= min_winograd_channels;
  if (is_blocked && suits_winograd)
    variants.push_back({input_tag, output_tag, dnnl::algorithm::convolution_winograd});
  if (input_channels == 16 && output_channels == 16) variants.push_back({Tag::nhwc, Tag::nhwc});
  if (input_channels <= 3) variants.push_back({Tag::nchw, output_tag});
  variants.push_back({input_tag, output_tag});
  variants.push_back({Tag::nhwc, Tag::nhwc});
  variants.push_back({Tag::any, Tag::any});
  return variants;
}

// Returns make(variant), which is oneDNN's descriptor of a variant, for the first variant that has
// a faster implementation than oneDNN's reference. If there is none, returns that of the last
// variant.
template <typename MakeDesc>
auto FindFastDesc(const std::vector<Variant>& variants, const MakeDesc& make) {
  auto desc = make(variants.front());
  for (size_t i = 1; i < variants.size() && (!desc || IsReferenceImplementation(desc)); ++i)
    desc = make(variants[i]);
  return desc;
}

class Conv : public Layer {
 public:
  explicit Conv(const LayerSpec& spec)
      : spec_(spec), window_(WindowGeometryOf(spec.def->conv(), spec.input())) {
    const pb::ConvDef& def = spec.def->conv();
    const memory::dim groups = def.groups(), kernel = def.kernel();
    const memory::dim group_outputs = def.outputs() / groups,
                      group_inputs = spec.input().c / groups;
    memory::dims weight_dims = {group_outputs, group_inputs, kernel, kernel};
    if (groups > 1) weight_dims.insert(weight_dims.begin(), groups);
    any_weight_desc_ = DescOf(weight_dims, Tag::any, FactorType(spec));
    any_weight_gradient_desc_ = DescOf(weight_dims, Tag::any);
    weight_ = {DescOf(weight_dims, groups > 1 ? Tag::goihw : Tag::oihw), -1,
               spec.parameters[0].values};
    if (!def.bias()) return;
    bias_ = {DescOf({def.outputs()}, Tag::x), -1, spec.parameters[1].values};
  }

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const auto prop_kind =
        spec_.is_training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    forward_ = FindFastDesc(VariantsFor(spec_, kWinogradMinForImages), [&](const Variant& variant) {
      // A descriptor without dimensions tells oneDNN that there is no bias.
      const ForwardConv::desc desc(prop_kind, variant.algorithm, InputDesc(variant, true),
                                   any_weight_desc_, bias_.desc, OutputDesc(variant, false),
                                   window_.strides, window_.dilates, window_.pad_begin,
                                   window_.pad_end);
      return ForwardConv::primitive_desc(desc, Program::Attributes(), program->engine(),
                                         kAllowEmpty);
    });
    input_ = program->Convert(inputs[0], forward_.src_desc());
    output_ = program->NewValue(forward_.dst_desc());
    const Value weight = program->Convert(weight_, forward_.weights_desc());
    program->Run<ForwardConv>(
        forward_,
        WithBias(DNNL_ARG_BIAS, bias_.caller_address,
                 {{DNNL_ARG_SRC, input_}, {DNNL_ARG_WEIGHTS, weight}, {DNNL_ARG_DST, output_}}));
    if (spec_.has_relu) AddRelu(program, output_);
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    Value masked_gradient = gradient;
    if (spec_.has_relu) masked_gradient = AddReluBackward(program, output_, gradient);
    if (!spec_.is_frozen) AddBackwardWeights(program, masked_gradient);
    return {wanted[0] ? AddBackwardData(program, masked_gradient) : Value()};
  }

 private:
  // Makes oneDNN return an empty descriptor instead of throwing if it has no implementation.
  static constexpr bool kAllowEmpty = true;

  // Descriptors of the layer's input and output. `is_factor`: whether the pass multiplies by that
  // tensor, so that it has the type FactorType; otherwise it is a result of sums, and fp32.
  memory::desc InputDesc(const Variant& variant, bool is_factor) const {
    return DescOf(DimsOf(spec_.batch, spec_.input()), variant.input, TypeOf(is_factor));
  }
  memory::desc OutputDesc(const Variant& variant, bool is_factor) const {
    return DescOf(DimsOf(spec_.batch, spec_.output), variant.output, TypeOf(is_factor));
  }
  memory::data_type TypeOf(bool is_factor) const {
    return is_factor ? FactorType(spec_) : memory::data_type::f32;
  }

  // Adds the bias to a primitive's arguments, if the layer has one.
  Program::Arguments WithBias(int kind, float* bias, Program::Arguments arguments) const {
    if (spec_.def->conv().bias()) arguments.push_back({kind, {bias_.desc, -1, bias}});
    return arguments;
  }

  void AddBackwardWeights(Program* program, const Value& gradient) {
    const auto backward =
        FindFastDesc(VariantsFor(spec_, kWinogradMinForWeights), [&](const Variant& variant) {
          const BackwardWeights::desc desc(variant.algorithm, InputDesc(variant, true),
                                           any_weight_gradient_desc_, bias_.desc,
                                           OutputDesc(variant, true), window_.strides,
                                           window_.dilates, window_.pad_begin, window_.pad_end);
          return BackwardWeights::primitive_desc(desc, Program::Attributes(), program->engine(),
                                                 forward_, kAllowEmpty);
        });
    const Value weight_gradient = {weight_.desc, -1, spec_.parameters[0].gradient};
    Value weight = weight_gradient;
    const bool has_same_layout = DescribeSameBytes(backward.diff_weights_desc(), weight.desc);
    if (!has_same_layout) weight = program->NewValue(backward.diff_weights_desc());
    const bool has_bias = spec_.def->conv().bias();
    program->Run<BackwardWeights>(
        backward,
        WithBias(DNNL_ARG_DIFF_BIAS, has_bias ? spec_.parameters[1].gradient : nullptr,
                 {{DNNL_ARG_SRC, program->Convert(input_, backward.src_desc())},
                  {DNNL_ARG_DIFF_DST, program->Convert(gradient, backward.diff_dst_desc())},
                  {DNNL_ARG_DIFF_WEIGHTS, weight}}));
    if (!has_same_layout) program->Copy(weight, weight_gradient);
  }

  Value AddBackwardData(Program* program, const Value& gradient) {
    const auto backward =
        FindFastDesc(VariantsFor(spec_, kWinogradMinForImages), [&](const Variant& variant) {
          const BackwardData::desc desc(variant.algorithm, InputDesc(variant, false),
                                        any_weight_desc_, OutputDesc(variant, true),
                                        window_.strides, window_.dilates, window_.pad_begin,
                                        window_.pad_end);
          return BackwardData::primitive_desc(desc, Program::Attributes(), program->engine(),
                                              forward_, kAllowEmpty);
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
  const WindowGeometry window_;
  // Descriptors for which oneDNN chooses the layout (Tag::any).
  memory::desc any_weight_desc_, any_weight_gradient_desc_;
  Value weight_, bias_;
  ForwardConv::primitive_desc forward_;
  Value input_, output_;
};

}  // namespace

std::unique_ptr<Layer> MakeConv(const LayerSpec& spec) {
  if (SuitsWinograd(spec)) return MakeWinograd(spec);
  return std::make_unique<Conv>(spec);
}

}  // namespace tern::engine
