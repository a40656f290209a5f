#include "worker/engine/softmax_loss.h"

#include <algorithm>
#include <span>

#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using Tag = dnnl::memory::format_tag;

// Softmax with cross entropy on the CPU. In training, the forward pass also computes the gradient,
// because the loss and the gradient need the same exponentials.
class SoftmaxLossLayer : public Layer {
 public:
  explicit SoftmaxLossLayer(const LayerSpec& spec) : spec_(spec) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const auto row_desc = DescOf(DimsOf(spec_.batch, spec_.input()), Tag::nhwc);
    std::vector<Value> values = {program->Convert(inputs[0], row_desc)};
    if (spec_.is_training) {
      gradient_ = program->NewValue(row_desc);
      values.push_back(gradient_);
    }
    ForwardIo* io = &program->io();
    program->Call(values, [io, rows = spec_.batch, classes = spec_.input().c,
                           smoothing = spec_.def->softmax_loss().label_smoothing()](
                              const std::vector<float*>& data) {
      const std::span<float> scores_out = io->feed.scores;
      std::copy_n(data[0], scores_out.size(), scores_out.begin());
      const SoftmaxSums sums = SoftmaxLoss(data[0], io->feed.labels, rows, classes, io->feed.used,
                                           smoothing, data.size() > 1 ? data[1] : nullptr);
      io->score = {sums.loss, sums.correct, sums.among_five, io->feed.used};
    });
    return values[0];
  }

  std::vector<Value> Backward(Program*, const Value&, const std::vector<bool>&) override {
    return {gradient_};
  }

 private:
  const LayerSpec spec_;
  Value gradient_;
};

}  // namespace

std::unique_ptr<Layer> MakeSoftmaxLoss(const LayerSpec& spec) {
  return std::make_unique<SoftmaxLossLayer>(spec);
}

}  // namespace tern::engine
