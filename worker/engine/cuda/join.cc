// Layers with several inputs, on a GPU: concatenation of channels, and sums.
#include "kernels/nn/elementwise.h"
#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {
namespace {

class Concat : public Layer {
 public:
  explicit Concat(const LayerSpec& spec) : spec_(spec) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const Value output = program->NewValue(spec_.output);
    uint32_t first = 0;
    for (const Value& input : inputs) {
      AddCopy(program, input, {0, input.image.c}, input.image.c, output, {first, spec_.output.c});
      first += input.image.c;
    }
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    std::vector<Value> gradients(spec_.inputs.size());
    uint32_t first = 0;
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      const uint32_t count = spec_.inputs[i].c;
      if (wanted[i]) {
        gradients[i] = program->NewValue(spec_.inputs[i]);
        AddCopy(program, gradient, {first, spec_.output.c}, count, gradients[i], {0, count});
      }
      first += count;
    }
    return gradients;
  }

 private:
  // Appends a copy of `count` channels from `from` to `to`. `from_channels` and `to_channels` have
  // the first of these channels and the number of all channels of the tensor.
  void AddCopy(Program* program, const Value& from, const kernels::DeviceChannels& from_channels,
               uint32_t count, const Value& to, const kernels::DeviceChannels& to_channels) {
    const uint64_t pixels = ImagesOf(spec_.batch, spec_.output).pixels();
    program->Call("copy of channels", {from, to},
                  [from_channels, pixels, count, to_channels, type = program->type()](
                      auto stream, const auto& data) {
                    return kernels::CopyChannelsOnDevice(stream, type, data[0], from_channels,
                                                         pixels, count, to_channels, data[1]);
                  });
  }

  const LayerSpec spec_;
};

// The sum of the inputs. If a ReLU follows, the last addition computes it too.
class Add : public Layer {
 public:
  explicit Add(const LayerSpec& spec) : spec_(spec) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    output_ = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i)
      output_ = AddSum(program, output_, inputs[i], spec_.relu && i + 1 == inputs.size());
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

Value AddSum(Program* program, const Value& a, const Value& b, bool relu) {
  const Value sum = program->NewValue(a.image);
  const uint64_t n = models::Elements(a.image) * program->batch();
  program->Call("sum", {a, b, sum},
                [n, relu, type = program->type()](auto stream, const auto& data) {
                  return kernels::AddOnDevice(stream, type, data[0], data[1], n, relu, data[2]);
                });
  return sum;
}

std::unique_ptr<Layer> MakeConcat(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<Concat>(spec);
}
std::unique_ptr<Layer> MakeAdd(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<Add>(spec);
}

}  // namespace tern::engine::cuda
