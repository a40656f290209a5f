// Standardization on the CPU: scales each image to mean 0 and standard deviation 1.
#include <algorithm>
#include <cmath>

#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using Tag = dnnl::memory::format_tag;

// The largest scale that an image of n elements may have: 1 / (1 / sqrt(n)).
double MaxScale(size_t n) { return std::sqrt(static_cast<double>(n)); }

// Computes y = (x - mean) / d for an image of n elements, where d = max(standard deviation, 1 /
// sqrt(n)). Returns 1 / d.
float Standardize(const float* x, size_t n, float* y) {
  double sum = 0, sum_of_squares = 0;
  for (size_t i = 0; i < n; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) sum_of_squares += (x[i] - mean) * (x[i] - mean);
  const double deviation = std::sqrt(sum_of_squares / static_cast<double>(n));
  const double scale = std::min(1 / deviation, MaxScale(n));
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>((x[i] - mean) * scale);
  return static_cast<float>(scale);
}

// Computes dx = (dy - mean(dy) - y mean(dy y)) / d, where `scale` is 1 / d. Omits the term with y
// if d is not the standard deviation but its lower bound 1 / sqrt(n).
void StandardizeBackward(const float* y, const float* dy, float scale, size_t n, float* dx) {
  double sum = 0, sum_of_products = 0;
  for (size_t i = 0; i < n; ++i) {
    sum += dy[i];
    sum_of_products += double{dy[i]} * y[i];
  }
  const double count = static_cast<double>(n);
  const bool is_deviation = scale < static_cast<float>(MaxScale(n));
  const double y_factor = is_deviation ? sum_of_products / count : 0;
  for (size_t i = 0; i < n; ++i)
    dx[i] = static_cast<float>((dy[i] - sum / count - y[i] * y_factor) * scale);
}

class StandardizeLayer : public Layer {
 public:
  explicit StandardizeLayer(const LayerSpec& spec)
      : spec_(spec),
        desc_(DescOf(DimsOf(spec.batch, spec.output), Tag::nchw)),
        image_elements_(desc_.get_size() / sizeof(float) / spec.batch) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    output_ = program->NewValue(desc_);
    scales_ = program->NewValue(DescOf({spec_.batch}, Tag::x));
    program->Call({program->Convert(inputs[0], desc_), output_, scales_},
                  [batch = spec_.batch, n = image_elements_](const std::vector<float*>& data) {
                    for (size_t i = 0; i < batch; ++i)
                      data[2][i] = Standardize(data[0] + i * n, n, data[1] + i * n);
                  });
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Value input_gradient = program->NewValue(desc_);
    program->Call({output_, program->Convert(gradient, desc_), scales_, input_gradient},
                  [batch = spec_.batch, n = image_elements_](const std::vector<float*>& data) {
                    for (size_t i = 0; i < batch; ++i)
                      StandardizeBackward(data[0] + i * n, data[1] + i * n, data[2][i], n,
                                          data[3] + i * n);
                  });
    return {input_gradient};
  }

 private:
  const LayerSpec spec_;
  const dnnl::memory::desc desc_;
  const size_t image_elements_;  // The number of elements of one image.
  Value output_, scales_;
};

}  // namespace

std::unique_ptr<Layer> MakeStandardize(const LayerSpec& spec) {
  return std::make_unique<StandardizeLayer>(spec);
}

}  // namespace tern::engine
