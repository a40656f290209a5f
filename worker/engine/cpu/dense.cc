// Dense layer (inner product) on the CPU, by oneDNN. Weights and their gradients are used where
// they are, in the caller's row-major arrays, because at the batch sizes of training a copy to a
// blocked layout and back costs more time than it saves. With bf16, weights are rounded to a copy.
#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using dnnl::memory;
using Tag = dnnl::memory::format_tag;
using ForwardProduct = dnnl::inner_product_forward;
using BackwardData = dnnl::inner_product_backward_data;
using BackwardWeights = dnnl::inner_product_backward_weights;

class Dense : public Layer {
 public:
  explicit Dense(const LayerSpec& spec)
      : spec_(spec),
        input_image_(DescOf(DimsOf(spec.batch, spec.input()), Tag::nchw)),
        output_image_(DescOf(DimsOf(spec.batch, spec.output), Tag::nhwc)) {
    const memory::dim outputs = spec.output.c;
    const memory::dim inputs = memory::dim{spec.input().c} * spec.input().h * spec.input().w;
    flat_input_ = DescOf({spec.batch, inputs}, Tag::nc);
    flat_output_ = DescOf({spec.batch, outputs}, Tag::nc);
    flat_input_factor_ = DescOf({spec.batch, inputs}, Tag::nc, FactorType(spec));
    flat_output_factor_ = DescOf({spec.batch, outputs}, Tag::nc, FactorType(spec));
    weight_factor_ = DescOf({outputs, inputs}, Tag::oi, FactorType(spec));
    weight_ = {DescOf({outputs, inputs}, Tag::oi), -1, spec.parameters[0].values};
    bias_ = {DescOf({outputs}, Tag::x), -1, spec.parameters[1].values};
  }

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const auto prop_kind =
        spec_.is_training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const ForwardProduct::desc desc(prop_kind, flat_input_factor_, weight_factor_, bias_.desc,
                                    flat_output_);
    forward_ = ForwardProduct::primitive_desc(desc, Program::Attributes(), program->engine());
    input_ = program->Convert(Reinterpret(flat_input_, program->Convert(inputs[0], input_image_)),
                              flat_input_factor_);
    weight_in_factor_type_ = program->Convert(weight_, weight_factor_);
    output_ = program->NewValue(flat_output_);
    program->Run<ForwardProduct>(forward_, {{DNNL_ARG_SRC, input_},
                                            {DNNL_ARG_WEIGHTS, weight_in_factor_type_},
                                            {DNNL_ARG_BIAS, bias_},
                                            {DNNL_ARG_DST, output_}});
    if (spec_.has_relu) AddRelu(program, output_);
    return Reinterpret(output_image_, output_);
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    Value flat_gradient = Reinterpret(flat_output_, program->Convert(gradient, output_image_));
    if (spec_.has_relu) flat_gradient = AddReluBackward(program, output_, flat_gradient);
    flat_gradient = program->Convert(flat_gradient, flat_output_factor_);
    if (!spec_.is_frozen) AddBackwardWeights(program, flat_gradient);
    return {wanted[0] ? AddBackwardData(program, flat_gradient) : Value()};
  }

 private:
  // Reinterprets the same bytes with other dimensions.
  static Value Reinterpret(const memory::desc& desc, const Value& value) {
    return {desc, value.buffer, value.caller_address, value.is_shared};
  }

  void AddBackwardWeights(Program* program, const Value& gradient) {
    const BackwardWeights::desc desc(flat_input_factor_, weight_.desc, bias_.desc,
                                     flat_output_factor_);
    const BackwardWeights::primitive_desc backward(desc, Program::Attributes(), program->engine(),
                                                   forward_);
    program->Run<BackwardWeights>(
        backward, {{DNNL_ARG_SRC, input_},
                   {DNNL_ARG_DIFF_DST, gradient},
                   {DNNL_ARG_DIFF_WEIGHTS, {weight_.desc, -1, spec_.parameters[0].gradient}},
                   {DNNL_ARG_DIFF_BIAS, {bias_.desc, -1, spec_.parameters[1].gradient}}});
  }

  Value AddBackwardData(Program* program, const Value& gradient) {
    const BackwardData::desc desc(flat_input_, weight_factor_, flat_output_factor_);
    const BackwardData::primitive_desc backward(desc, Program::Attributes(), program->engine(),
                                                forward_);
    const Value input_gradient = program->NewValue(flat_input_);
    program->Run<BackwardData>(backward, {{DNNL_ARG_DIFF_DST, gradient},
                                          {DNNL_ARG_WEIGHTS, weight_in_factor_type_},
                                          {DNNL_ARG_DIFF_SRC, input_gradient}});
    return Reinterpret(input_image_, input_gradient);
  }

  const LayerSpec spec_;
  // Descriptors of the input and the output, where N is the batch and O the number of outputs: as
  // images [N, C, H, W] and [N, O, 1, 1], and as matrices [N, C * H * W] and [N, O].
  const memory::desc input_image_, output_image_;
  memory::desc flat_input_, flat_output_;
  // The matrices and the weights in the type in which they are multiplied.
  memory::desc flat_input_factor_, flat_output_factor_, weight_factor_;
  Value weight_, bias_;
  ForwardProduct::primitive_desc forward_;
  Value input_, output_, weight_in_factor_type_;
};

}  // namespace

std::unique_ptr<Layer> MakeDense(const LayerSpec& spec) { return std::make_unique<Dense>(spec); }

}  // namespace tern::engine
