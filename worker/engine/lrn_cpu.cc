// Local response normalization across channels.
#include "worker/engine/layer_cpu.h"

namespace tern::engine {
namespace {

using dnnl::memory;
using Tag = dnnl::memory::format_tag;
using Forwards = dnnl::lrn_forward;
using Backwards = dnnl::lrn_backward;

constexpr auto kAcross = dnnl::algorithm::lrn_across_channels;

class Lrn : public Layer {
 public:
  explicit Lrn(const LayerSpec& spec) : spec_(spec), def_(spec.def->lrn()) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    // In the layout that comes, unless only a readable implementation takes that.
    forward_ = Describe(inputs[0].desc, program->engine());
    if (IsReference(forward_)) {
      constexpr Tag kBlocked = Tag::aBcd16b;  // channels in blocks of 16
      const Forwards::primitive_desc other =
          Describe(Plain(DimsOf(spec_.batch, spec_.output), kBlocked), program->engine());
      if (!IsReference(other)) forward_ = other;
    }
    input_ = program->Convert(inputs[0], forward_.src_desc());
    const Value output = program->NewValue(forward_.dst_desc());
    Program::Arguments arguments = {{DNNL_ARG_SRC, input_}, {DNNL_ARG_DST, output}};
    if (spec_.training && forward_.workspace_desc().get_size() > 0) {
      kept_ = program->NewValue(forward_.workspace_desc());
      arguments.push_back({DNNL_ARG_WORKSPACE, kept_});
    }
    program->Run<Forwards>(forward_, arguments);
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Backwards::desc desc(kAcross, input_.desc, input_.desc, def_.size(), def_.alpha(),
                               def_.beta(), def_.k());
    const Backwards::primitive_desc backward(desc, Program::Attributes(), program->engine(),
                                             forward_);
    const Value input_gradient = program->NewValue(backward.diff_src_desc());
    Program::Arguments arguments = {
        {DNNL_ARG_SRC, input_},
        {DNNL_ARG_DIFF_DST, program->Convert(gradient, backward.diff_dst_desc())},
        {DNNL_ARG_DIFF_SRC, input_gradient}};
    if (kept_.buffer >= 0) arguments.push_back({DNNL_ARG_WORKSPACE, kept_});
    program->Run<Backwards>(backward, arguments);
    return {input_gradient};
  }

 private:
  Forwards::primitive_desc Describe(const memory::desc& desc, const dnnl::engine& engine) const {
    const auto kind =
        spec_.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    return {Forwards::desc(kind, kAcross, desc, def_.size(), def_.alpha(), def_.beta(), def_.k()),
            Program::Attributes(), engine};
  }

  const LayerSpec spec_;
  const pb::LrnDef& def_;
  Forwards::primitive_desc forward_;
  Value input_, kept_;
};

}  // namespace

std::unique_ptr<Layer> MakeLrn(const LayerSpec& spec) { return std::make_unique<Lrn>(spec); }

}  // namespace tern::engine
