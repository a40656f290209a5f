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
    uint32_t first_channel = 0;
    for (const Value& input : inputs) {
      AddCopy(program, input, {0, input.image.c}, input.image.c, output,
              {first_channel, spec_.output.c});
      first_channel += input.image.c;
    }
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    std::vector<Value> gradients(spec_.inputs.size());
    uint32_t first_channel = 0;
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      const uint32_t num_channels = spec_.inputs[i].c;
      if (wanted[i]) {
        gradients[i] = program->NewValue(spec_.inputs[i]);
        AddCopy(program, gradient, {first_channel, spec_.output.c}, num_channels, gradients[i],
                {0, num_channels});
      }
      first_channel += num_channels;
    }
    return gradients;
  }

 private:
  // Appends a copy of `num_channels` channels from `source` to `target`. `source_channels` and
  // `target_channels` have the first of these channels and the number of all channels of the
  // tensor.
  void AddCopy(Program* program, const Value& source,
               const kernels::DeviceChannels& source_channels, uint32_t num_channels,
               const Value& target, const kernels::DeviceChannels& target_channels) {
    const uint64_t pixels = ImagesOf(spec_.batch, spec_.output).pixels();
    program->Call("copy of channels", {source, target},
                  [source_channels, pixels, num_channels, target_channels, type = program->type()](
                      auto stream, const auto& data) {
                    return kernels::CopyChannelsOnDevice(stream, type, data[0], source_channels,
                                                         pixels, num_channels, target_channels,
                                                         data[1]);
                  });
  }

  const LayerSpec spec_;
};

// The sum of the inputs. If a ReLU follows the sum, the last addition computes the ReLU, too.
class SumLayer : public Layer {
 public:
  explicit SumLayer(const LayerSpec& spec) : spec_(spec) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    output_ = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i)
      output_ = AddSum(program, output_, inputs[i], spec_.has_relu && i + 1 == inputs.size());
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

Value AddSum(Program* program, const Value& a, const Value& b, bool has_relu) {
  const Value sum = program->NewValue(a.image);
  const uint64_t num_elements = models::Elements(a.image) * program->batch();
  program->Call("sum", {a, b, sum},
                [num_elements, has_relu, type = program->type()](auto stream, const auto& data) {
                  return kernels::AddOnDevice(stream, type, data[0], data[1], num_elements,
                                              has_relu, data[2]);
                });
  return sum;
}

std::unique_ptr<Layer> MakeConcat(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<Concat>(spec);
}
std::unique_ptr<Layer> MakeAdd(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<SumLayer>(spec);
}

}  // namespace tern::engine::cuda
