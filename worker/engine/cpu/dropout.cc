// Dropout on the CPU. The forward pass stores the factor of each element for the backward pass. The
// random numbers are a function of (seed, rank, step, layer, index of the element in [N, C, H, W]).
#include <cmath>

#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using Tag = dnnl::memory::format_tag;

constexpr size_t kDrawsPerBlock = 8;  // Random 16-bit numbers in a Philox block.

// Sets factors[i], for i < n, to 0 with probability `rate` (rounded to 2^-16), else to 1 / (1 -
// rate).
void DrawFactors(const kernels::NoiseKey& key, float rate, size_t n, float* factors) {
  const auto threshold = static_cast<uint32_t>(std::lround(rate * 65536.0));
  const float kept_factor = 1 / (1 - rate);
  for (size_t block = 0; block * kDrawsPerBlock < n; ++block) {
    const auto words = kernels::NoiseBlock(key, static_cast<uint32_t>(block), 0);
    for (size_t k = 0; k < kDrawsPerBlock && block * kDrawsPerBlock + k < n; ++k) {
      const uint32_t draw = words[k / 2] >> (k % 2 * 16) & 0xffff;
      factors[block * kDrawsPerBlock + k] = draw < threshold ? 0 : kept_factor;
    }
  }
}

class Dropout : public Layer {
 public:
  explicit Dropout(const LayerSpec& spec)
      : spec_(spec), desc_(DescOf(DimsOf(spec.batch, spec.output), Tag::nchw)) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    if (!spec_.is_training) return inputs[0];
    const Value input = program->Convert(inputs[0], desc_);
    const Value output = program->NewValue(desc_);
    factors_ = program->NewValue(desc_);
    const ForwardIo* io = &program->io();
    program->Call({input, output, factors_},
                  [this_spec = spec_, io, n = NumElements()](const std::vector<float*>& data) {
                    kernels::NoiseKey key = this_spec.noise;
                    key.round = io->feed.step;
                    DrawFactors(key, this_spec.def->dropout().rate(), n, data[2]);
                    for (size_t i = 0; i < n; ++i) data[1][i] = data[0][i] * data[2][i];
                  });
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Value output_gradient = program->Convert(gradient, desc_);
    const Value input_gradient = program->InPlaceOrNew(output_gradient);
    program->Call({output_gradient, input_gradient, factors_},
                  [n = NumElements()](const std::vector<float*>& data) {
                    for (size_t i = 0; i < n; ++i) data[1][i] = data[0][i] * data[2][i];
                  });
    return {input_gradient};
  }

 private:
  size_t NumElements() const { return desc_.get_size() / sizeof(float); }

  const LayerSpec spec_;
  const dnnl::memory::desc desc_;
  Value factors_;
};

}  // namespace

std::unique_ptr<Layer> MakeDropout(const LayerSpec& spec) {
  return std::make_unique<Dropout>(spec);
}

}  // namespace tern::engine
