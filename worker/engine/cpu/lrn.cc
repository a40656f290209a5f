// Local response normalization across channels on the CPU, by kernels/nn/lrn.h. Does not use
// oneDNN, whose fast implementation supports only windows of five channels.
#include "kernels/nn/lrn.h"

#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

class Lrn : public Layer {
 public:
  explicit Lrn(const LayerSpec& spec)
      : desc_(ActivationDesc(DimsOf(spec.batch, spec.output))),
        batch_(spec.batch),
        image_{spec.output.c, size_t{spec.output.h} * spec.output.w,
               ActivationTag(spec.output.c) == kBlocked},
        rule_{spec.def->lrn().size(), spec.def->lrn().alpha(), spec.def->lrn().beta(),
              spec.def->lrn().k()} {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    input_ = program->Convert(inputs[0], desc_);
    const Value output = program->NewValue(desc_);
    program->Call({input_, output},
                  [batch = batch_, image = image_, rule = rule_](const std::vector<float*>& data) {
                    const size_t image_elements = image.channels * image.pixels;
#pragma omp parallel for
                    for (size_t n = 0; n < batch; ++n)
                      kernels::LrnForward(data[0] + n * image_elements, image, rule,
                                          data[1] + n * image_elements);
                  });
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Value output_gradient = program->Convert(gradient, desc_);
    const Value input_gradient = program->InPlaceOrNew(output_gradient);
    program->Call({input_, output_gradient, input_gradient},
                  [batch = batch_, image = image_, rule = rule_](const std::vector<float*>& data) {
                    const size_t image_elements = image.channels * image.pixels;
#pragma omp parallel for
                    for (size_t n = 0; n < batch; ++n)
                      kernels::LrnBackward(data[0] + n * image_elements,
                                           data[1] + n * image_elements, image, rule,
                                           data[2] + n * image_elements);
                  });
    return {input_gradient};
  }

 private:
  const dnnl::memory::desc desc_;
  const size_t batch_;
  const kernels::LrnImage image_;
  const kernels::LrnRule rule_;
  Value input_;
};

}  // namespace

std::unique_ptr<Layer> MakeLrn(const LayerSpec& spec) { return std::make_unique<Lrn>(spec); }

}  // namespace tern::engine
