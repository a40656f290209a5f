// Max and average pooling on the CPU, by oneDNN. In training, the forward pass of max pooling
// records which element of each window is the largest (the first one if several are equal).
#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using dnnl::memory;
using Tag = dnnl::memory::format_tag;
using ForwardPool = dnnl::pooling_v2_forward;
using BackwardPool = dnnl::pooling_v2_backward;

dnnl::algorithm AlgorithmOf(const pb::LayerDef& def) {
  if (def.has_max_pool()) return dnnl::algorithm::pooling_max;
  return def.avg_pool().include_padding() ? dnnl::algorithm::pooling_avg_include_padding
                                          : dnnl::algorithm::pooling_avg_exclude_padding;
}

class Pool : public Layer {
 public:
  explicit Pool(const LayerSpec& spec)
      : spec_(spec),
        algorithm_(AlgorithmOf(*spec.def)),
        window_(WindowGeometryOf(
            spec.def->has_max_pool() ? spec.def->max_pool() : spec.def->avg_pool(), spec.input())),
        records_winners_(spec.is_training && spec.def->has_max_pool()) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const auto prop_kind =
        spec_.is_training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const memory::desc any_layout_desc = DescOf(DimsOf(spec_.batch, spec_.output), Tag::any);
    const ForwardPool::desc desc(prop_kind, algorithm_, inputs[0].desc, any_layout_desc,
                                 window_.strides, window_.kernel, window_.dilates,
                                 window_.pad_begin, window_.pad_end);
    forward_ = ForwardPool::primitive_desc(desc, Program::Attributes(), program->engine());
    const Value output = program->NewValue(forward_.dst_desc());
    Program::Arguments arguments = {{DNNL_ARG_SRC, inputs[0]}, {DNNL_ARG_DST, output}};
    if (records_winners_) {
      winners_ = program->NewValue(forward_.workspace_desc());
      arguments.push_back({DNNL_ARG_WORKSPACE, winners_});
    }
    program->Run<ForwardPool>(forward_, arguments);
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const BackwardPool::desc desc(algorithm_, forward_.src_desc(), forward_.dst_desc(),
                                  window_.strides, window_.kernel, window_.dilates,
                                  window_.pad_begin, window_.pad_end);
    const BackwardPool::primitive_desc backward(desc, Program::Attributes(), program->engine(),
                                                forward_);
    const Value input_gradient = program->NewValue(backward.diff_src_desc());
    Program::Arguments arguments = {
        {DNNL_ARG_DIFF_DST, program->Convert(gradient, backward.diff_dst_desc())},
        {DNNL_ARG_DIFF_SRC, input_gradient}};
    if (records_winners_) arguments.push_back({DNNL_ARG_WORKSPACE, winners_});
    program->Run<BackwardPool>(backward, arguments);
    return {input_gradient};
  }

 private:
  const LayerSpec spec_;
  const dnnl::algorithm algorithm_;
  const WindowGeometry window_;
  const bool records_winners_;
  ForwardPool::primitive_desc forward_;
  Value winners_;  // Which element of each window is the largest.
};

}  // namespace

std::unique_ptr<Layer> MakePool(const LayerSpec& spec) { return std::make_unique<Pool>(spec); }

}  // namespace tern::engine
