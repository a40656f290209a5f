// Batch norm. A ReLU behind it is applied in the same pass, forward and backward.
#include "worker/engine/layer_cpu.h"

namespace tern::engine {
namespace {

using dnnl::memory;
using Tag = dnnl::memory::format_tag;
using Flags = dnnl::normalization_flags;
using Forwards = dnnl::batch_normalization_forward;
using Backwards = dnnl::batch_normalization_backward;

// r = (1 - momentum) r + momentum x; the variance of the n numbers counts as n / (n - 1) of it.
void UpdateRunning(float momentum, double unbiased, const float* mean, const float* variance,
                   size_t channels, float* running_mean, float* running_variance) {
  const double keep = 1 - static_cast<double>(momentum);
  for (size_t c = 0; c < channels; ++c) {
    running_mean[c] = static_cast<float>(keep * running_mean[c] + momentum * mean[c]);
    running_variance[c] =
        static_cast<float>(keep * running_variance[c] + momentum * unbiased * variance[c]);
  }
}

class BatchNorm : public Layer {
 public:
  explicit BatchNorm(const LayerSpec& spec)
      : spec_(spec),
        by_channel_(Plain({spec.output.c}, Tag::x)),
        flags_(Flags::use_scale | Flags::use_shift) {
    if (spec.relu) flags_ |= Flags::fuse_norm_relu;
    if (!spec.training) flags_ |= Flags::use_global_stats;
  }

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const auto kind =
        spec_.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    input_ = inputs[0];
    const Forwards::desc desc(kind, input_.desc, spec_.def->batch_norm().epsilon(), flags_);
    forward_ = Forwards::primitive_desc(desc, Program::Attributes(), program->engine());
    const Value output = program->NewValue(input_.desc);
    mean_ = spec_.training ? program->NewValue(by_channel_) : Of(spec_.statistics[0]);
    variance_ = spec_.training ? program->NewValue(by_channel_) : Of(spec_.statistics[1]);
    Program::Arguments arguments = {{DNNL_ARG_SRC, input_},
                                    {DNNL_ARG_DST, output},
                                    {DNNL_ARG_MEAN, mean_},
                                    {DNNL_ARG_VARIANCE, variance_},
                                    {DNNL_ARG_SCALE, Of(spec_.parameters[0].values)},
                                    {DNNL_ARG_SHIFT, Of(spec_.parameters[1].values)}};
    if (spec_.relu && spec_.training) {
      positive_ = program->NewValue(forward_.workspace_desc());
      arguments.push_back({DNNL_ARG_WORKSPACE, positive_});
    }
    program->Run<Forwards>(forward_, arguments);
    if (spec_.training) AddUpdate(program);
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& /*wanted*/) override {
    const Backwards::desc desc(dnnl::prop_kind::backward, input_.desc, input_.desc,
                               spec_.def->batch_norm().epsilon(), flags_);
    const Backwards::primitive_desc backward(desc, Program::Attributes(), program->engine(),
                                             forward_);
    const Value from = program->Convert(gradient, input_.desc);
    const Value input_gradient = program->InPlace(from);
    Program::Arguments arguments = {{DNNL_ARG_SRC, input_},
                                    {DNNL_ARG_DIFF_DST, from},
                                    {DNNL_ARG_MEAN, mean_},
                                    {DNNL_ARG_VARIANCE, variance_},
                                    {DNNL_ARG_SCALE, Of(spec_.parameters[0].values)},
                                    {DNNL_ARG_SHIFT, Of(spec_.parameters[1].values)},
                                    {DNNL_ARG_DIFF_SRC, input_gradient},
                                    {DNNL_ARG_DIFF_SCALE, Of(spec_.parameters[0].gradient)},
                                    {DNNL_ARG_DIFF_SHIFT, Of(spec_.parameters[1].gradient)}};
    if (spec_.relu) arguments.push_back({DNNL_ARG_WORKSPACE, positive_});
    program->Run<Backwards>(backward, arguments);
    return {input_gradient};
  }

 private:
  Value Of(float* values) const { return {by_channel_, -1, values}; }

  void AddUpdate(Program* program) {
    const double n = static_cast<double>(spec_.batch) * spec_.output.h * spec_.output.w;
    const double unbiased = n > 1 ? n / (n - 1) : 1;
    program->Call(
        {mean_, variance_},
        [unbiased, momentum = spec_.def->batch_norm().momentum(), channels = size_t{spec_.output.c},
         running = spec_.statistics](const std::vector<float*>& data) {
          UpdateRunning(momentum, unbiased, data[0], data[1], channels, running[0], running[1]);
        });
  }

  const LayerSpec spec_;
  const memory::desc by_channel_;
  Flags flags_;
  Forwards::primitive_desc forward_;
  Value input_, mean_, variance_, positive_;
};

}  // namespace

std::unique_ptr<Layer> MakeBatchNorm(const LayerSpec& spec) {
  return std::make_unique<BatchNorm>(spec);
}

}  // namespace tern::engine
