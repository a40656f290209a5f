// Max pooling. The forward pass of training notes which element won; of equal ones the first.
#include "worker/engine/layer_cpu.h"

namespace tern::engine {
namespace {

using dnnl::memory;
using Tag = dnnl::memory::format_tag;
using Forwards = dnnl::pooling_forward;
using Backwards = dnnl::pooling_backward;

constexpr auto kMax = dnnl::algorithm::pooling_max;

class MaxPool : public Layer {
 public:
  explicit MaxPool(const LayerSpec& spec) : spec_(spec) {
    const pb::PoolDef& def = spec.def->max_pool();
    const auto rows = models::PlanAxis(spec.input.h, def.kernel(), def.stride(), def.padding());
    const auto columns = models::PlanAxis(spec.input.w, def.kernel(), def.stride(), def.padding());
    kernel_ = {def.kernel(), def.kernel()};
    strides_ = {def.stride(), def.stride()};
    pad_begin_ = {rows->pad_begin, columns->pad_begin};
    pad_end_ = {rows->pad_end, columns->pad_end};
  }

  Value Forward(Program* program, const Value& input) override {
    const auto kind =
        spec_.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const memory::desc any = Plain(DimsOf(spec_.batch, spec_.output), Tag::any);
    const Forwards::desc desc(kind, kMax, input.desc, any, strides_, kernel_, pad_begin_, pad_end_);
    forward_ = Forwards::primitive_desc(desc, Program::Attributes(), program->engine());
    const Value output = program->NewValue(forward_.dst_desc());
    if (!spec_.training) {
      program->Run<Forwards>(forward_, {{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output}});
      return output;
    }
    winners_ = program->NewValue(forward_.workspace_desc());
    program->Run<Forwards>(
        forward_, {{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output}, {DNNL_ARG_WORKSPACE, winners_}});
    return output;
  }

  Value Backward(Program* program, const Value& gradient, bool /*wanted*/) override {
    const Backwards::desc desc(kMax, forward_.src_desc(), forward_.dst_desc(), strides_, kernel_,
                               pad_begin_, pad_end_);
    const Backwards::primitive_desc backward(desc, Program::Attributes(), program->engine(),
                                             forward_);
    const Value output_gradient = program->Convert(gradient, backward.diff_dst_desc());
    const Value input_gradient = program->NewValue(backward.diff_src_desc());
    program->Run<Backwards>(backward, {{DNNL_ARG_DIFF_DST, output_gradient},
                                       {DNNL_ARG_WORKSPACE, winners_},
                                       {DNNL_ARG_DIFF_SRC, input_gradient}});
    return input_gradient;
  }

 private:
  const LayerSpec spec_;
  memory::dims kernel_, strides_, pad_begin_, pad_end_;
  Forwards::primitive_desc forward_;
  Value winners_;
};

}  // namespace

std::unique_ptr<Layer> MakeMaxPool(const LayerSpec& spec) {
  return std::make_unique<MaxPool>(spec);
}

}  // namespace tern::engine
