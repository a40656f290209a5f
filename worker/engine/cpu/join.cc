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
    const memory::desc to = Plain(DimsOf(spec_.batch, spec_.output), tag_);
    std::vector<memory::desc> descs;
    Program::Arguments arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value input = program->Convert(inputs[i], ImageOf(i));
      descs.push_back(input.desc);
      arguments.push_back({DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), input});
    }
    const dnnl::concat::primitive_desc desc(to, /*concat_dimension=*/1, descs, program->engine(),
                                            Program::Attributes());
    const Value output = program->NewValue(to);
    arguments.push_back({DNNL_ARG_DST, output});
    program->Run<dnnl::concat>(desc, arguments);
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    const Value whole = program->Convert(gradient, Plain(DimsOf(spec_.batch, spec_.output), tag_));
    std::vector<Value> gradients(spec_.inputs.size());
    memory::dim channel = 0;
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      const memory::dims dims = DimsOf(spec_.batch, spec_.inputs[i]);
      if (wanted[i]) {
        Value part = whole;
        part.desc = whole.desc.submemory_desc(dims, {0, channel, 0, 0});
        gradients[i] = program->NewValue(ImageOf(i));
        program->Copy(part, gradients[i]);
      }
      channel += dims[1];
    }
    return gradients;
  }

 private:
  memory::desc ImageOf(size_t i) const { return Plain(DimsOf(spec_.batch, spec_.inputs[i]), tag_); }

  const LayerSpec spec_;
  // The memory layout: in blocks of channels if the channels of every input fill whole blocks, else
  // channels last.
  Tag tag_ = kBlocked;
};

// The sum of the inputs. If a ReLU follows, the last addition computes it too.
class Add : public Layer {
 public:
  explicit Add(const LayerSpec& spec) : spec_(spec) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    output_ = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i) {
      const bool last = i + 1 == inputs.size();
      output_ = program->Add(output_, inputs[i], AttributesWithRelu(spec_.relu && last));
    }
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    Value masked = gradient;
    if (spec_.relu) masked = AddReluBackward(program, output_, gradient);
    masked.shared = true;
    return std::vector<Value>(wanted.size(), masked);
  }

 private:
  const LayerSpec spec_;
  Value output_;
};

}  // namespace

std::unique_ptr<Layer> MakeConcat(const LayerSpec& spec) { return std::make_unique<Concat>(spec); }
std::unique_ptr<Layer> MakeAdd(const LayerSpec& spec) { return std::make_unique<Add>(spec); }

}  // namespace tern::engine
