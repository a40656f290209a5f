// Local response normalization across channels on a GPU.
#include "kernels/nn/lrn.h"

#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {
namespace {

class Lrn : public Layer {
 public:
  explicit Lrn(const LayerSpec& spec)
      : spec_(spec),
        num_pixels_(ImagesOf(spec.batch, spec.output).pixels()),
        rule_{spec.def->lrn().size(), spec.def->lrn().alpha(), spec.def->lrn().beta(),
              spec.def->lrn().k()} {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    input_ = inputs[0];
    const Value output = program->NewValue(spec_.output);
    program->Call("LRN", {input_, output},
                  [pixels = num_pixels_, c = spec_.output.c, rule = rule_, type = program->type()](
                      auto stream, const auto& data) {
                    return kernels::LrnForwardOnDevice(stream, type, data[0], pixels, c, rule,
                                                       data[1]);
                  });
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Value input_gradient = program->NewValue(spec_.output);
    program->Call("LRN, backward", {input_, gradient, input_gradient},
                  [pixels = num_pixels_, c = spec_.output.c, rule = rule_, type = program->type()](
                      auto stream, const auto& data) {
                    return kernels::LrnBackwardOnDevice(stream, type, data[0], data[1], pixels, c,
                                                        rule, data[2]);
                  });
    return {input_gradient};
  }

 private:
  const LayerSpec spec_;
  const uint64_t num_pixels_;
  const kernels::DeviceLrn rule_;
  Value input_;
};

}  // namespace

std::unique_ptr<Layer> MakeLrn(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<Lrn>(spec);
}

}  // namespace tern::engine::cuda
