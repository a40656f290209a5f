// Max and average pooling on a GPU. The forward pass of max pooling records which element of each
// window is the largest.
#include "kernels/nn/pool.h"

#include "kernels/nn/device_images.h"
#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {
namespace {

class Pool : public Layer {
 public:
  explicit Pool(const LayerSpec& spec)
      : spec_(spec),
        def_(spec.def->has_max_pool() ? spec.def->max_pool() : spec.def->avg_pool()),
        slide_(SlideOf(spec, def_)) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const Value output = program->NewValue(spec_.output);
    if (!spec_.def->has_max_pool()) {
      program->Call("average pool", {inputs[0], output},
                    [slide = slide_, padding = def_.include_padding(), type = program->type()](
                        auto stream, const auto& data) {
                      return kernels::AvgPoolForwardOnDevice(stream, type, slide, padding, data[0],
                                                             data[1]);
                    });
      return output;
    }
    winners_ = program->NewArray(slide_.out.size() * sizeof(uint16_t));
    program->Call("max pool", {inputs[0], output, winners_},
                  [slide = slide_, type = program->type()](auto stream, const auto& data) {
                    return kernels::MaxPoolForwardOnDevice(stream, type, slide, data[0], data[1],
                                                           static_cast<uint16_t*>(data[2]));
                  });
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Value input_gradient = program->NewValue(spec_.input());
    if (!spec_.def->has_max_pool()) {
      program->Call("average pool, backward", {gradient, input_gradient},
                    [slide = slide_, padding = def_.include_padding(), type = program->type()](
                        auto stream, const auto& data) {
                      return kernels::AvgPoolBackwardOnDevice(stream, type, slide, padding, data[0],
                                                              data[1]);
                    });
      return {input_gradient};
    }
    program->Call("max pool, backward", {gradient, input_gradient, winners_},
                  [slide = slide_, type = program->type()](auto stream, const auto& data) {
                    return kernels::MaxPoolBackwardOnDevice(stream, type, slide, data[0],
                                                            static_cast<const uint16_t*>(data[2]),
                                                            data[1]);
                  });
    return {input_gradient};
  }

 private:
  const LayerSpec spec_;
  const pb::PoolDef def_;
  const kernels::DeviceSlide slide_;
  Value winners_;  // Which element of each window is the largest.
};

}  // namespace

std::unique_ptr<Layer> MakePool(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<Pool>(spec);
}

}  // namespace tern::engine::cuda
