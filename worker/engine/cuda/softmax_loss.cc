#include "kernels/nn/rows.h"
#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {
namespace {

// Softmax with cross entropy on a GPU. In training, the forward pass also computes the gradient,
// because the loss and the gradient need the same exponentials.
class SoftmaxLoss : public Layer {
 public:
  SoftmaxLoss(const LayerSpec& spec, const Inputs& inputs) : spec_(spec), inputs_(inputs) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    std::vector<Value> values = {inputs[0]};
    if (spec_.is_training) {
      gradient_ = program->NewValue(spec_.input());
      values.push_back(gradient_);
    }
    program->Call("softmax loss", values,
                  [spec = spec_, loss_inputs = inputs_, type = program->type()](auto stream,
                                                                                const auto& data) {
                    return kernels::SoftmaxLossOnDevice(
                        stream, type, data[0], loss_inputs.labels, spec.batch, spec.input().c,
                        spec.def->softmax_loss().label_smoothing(), loss_inputs.step,
                        loss_inputs.losses, data.size() > 1 ? data[1] : nullptr);
                  });
    return inputs[0];
  }

  std::vector<Value> Backward(Program*, const Value&, const std::vector<bool>&) override {
    return {gradient_};
  }

 private:
  const LayerSpec spec_;
  const Inputs inputs_;
  Value gradient_;
};

}  // namespace

std::unique_ptr<Layer> MakeSoftmaxLoss(const LayerSpec& spec, const Inputs& inputs) {
  return std::make_unique<SoftmaxLoss>(spec, inputs);
}

}  // namespace tern::engine::cuda
