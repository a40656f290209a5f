// Layers with several inputs, on the CPU: concatenation of channels, and sums.
#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using dnnl::memory;
using Tag = dnnl::memory::format_tag;

class Concat : public Layer {
 public:
  explicit Concat(const LayerSpec& spec) : spec_(spec) {
    for (const models::ImageDims& input : spec.inputs)
      if (ActivationTag(input.c) != tag_) tag_ = Tag::nhwc;
  }

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const memory::desc output_desc = DescOf(DimsOf(spec_.batch, spec_.output), tag_);
    std::vector<memory::desc> descs;
    Program::Arguments arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value input = program->Convert(inputs[i], InputDesc(i));
      descs.push_back(input.desc);
      arguments.push_back({DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), input});
    }
    const dnnl::concat::primitive_desc desc(output_desc, /*concat_dimension=*/1, descs,
                                            program->engine(), Program::Attributes());
    const Value output = program->NewValue(output_desc);
    arguments.push_back({DNNL_ARG_DST, output});
    program->Run<dnnl::concat>(desc, arguments);
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    const Value output_gradient =
        program->Convert(gradient, DescOf(DimsOf(spec_.batch, spec_.output), tag_));
    std::vector<Value> gradients(spec_.inputs.size());
    memory::dim first_channel = 0;
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      const memory::dims dims = DimsOf(spec_.batch, spec_.inputs[i]);
      if (wanted[i]) {
        Value slice = output_gradient;
        slice.desc = output_gradient.desc.submemory_desc(dims, {0, first_channel, 0, 0});
        gradients[i] = program->NewValue(InputDesc(i));
        program->Copy(slice, gradients[i]);
      }
      first_channel += dims[1];
    }
    return gradients;
  }

 private:
  memory::desc InputDesc(size_t i) const {
    return DescOf(DimsOf(spec_.batch, spec_.inputs[i]), tag_);
  }

  const LayerSpec spec_;
  // The memory layout: in blocks of channels if the channels of every input fill whole blocks, else
  // channels last.
  Tag tag_ = kBlocked;
};

// The sum of the inputs, with the ReLU that follows, if any.
class SumLayer : public Layer {
 public:
  explicit SumLayer(const LayerSpec& spec) : spec_(spec) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    output_ = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i) output_ = program->AddSum(output_, inputs[i]);
    if (spec_.has_relu) AddRelu(program, output_);
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    Value masked_gradient = gradient;
    if (spec_.has_relu) masked_gradient = AddReluBackward(program, output_, gradient);
    masked_gradient.is_shared = true;
    return std::vector<Value>(wanted.size(), masked_gradient);
  }

 private:
  const LayerSpec spec_;
  Value output_;
};

}  // namespace

std::unique_ptr<Layer> MakeConcat(const LayerSpec& spec) { return std::make_unique<Concat>(spec); }
std::unique_ptr<Layer> MakeAdd(const LayerSpec& spec) { return std::make_unique<SumLayer>(spec); }

}  // namespace tern::engine
