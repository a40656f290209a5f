#include "tests/worker/engine/reference_layer.h"

#include <algorithm>
#include <cmath>

namespace tern::engine {
namespace {

class Dense : public ReferenceLayer {
 public:
  using ReferenceLayer::ReferenceLayer;

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    x_ = *inputs[0];
    const size_t input_elements = x_.c * x_.h * x_.w;
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t o = 0; o < y->c; ++o) {
        double sum = state_.parameters[1][o];
        for (size_t i = 0; i < input_elements; ++i)
          sum += state_.parameters[0][o * input_elements + i] * x_.values[n * input_elements + i];
        y->At(n, o, 0, 0) = sum;
      }
    }
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = x_.Zeros();
    const size_t input_elements = x_.c * x_.h * x_.w;
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t o = 0; o < dy.c; ++o) {
        const double dy_element = dy.At(n, o, 0, 0);
        state_.gradients[1][o] += dy_element;
        for (size_t i = 0; i < input_elements; ++i) {
          state_.gradients[0][o * input_elements + i] +=
              dy_element * x_.values[n * input_elements + i];
          dx.values[n * input_elements + i] +=
              dy_element * state_.parameters[0][o * input_elements + i];
        }
      }
    }
    return {dx};
  }

 private:
  Tensor x_;
};

// An element-wise function y = f(x). `slopes_` has the derivative f'(x) of every element.
class Elementwise : public ReferenceLayer {
 public:
  using ReferenceLayer::ReferenceLayer;

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = dy;
    for (size_t i = 0; i < slopes_.size(); ++i) dx.values[i] *= slopes_[i];
    return {dx};
  }

 protected:
  void MultiplyBySlopes(const Tensor& x, Tensor* y) {
    for (size_t i = 0; i < slopes_.size(); ++i) y->values[i] = slopes_[i] * x.values[i];
  }
  std::vector<double> slopes_;
};

class Relu : public Elementwise {
 public:
  Relu(const pb::LayerDef& def, ReferenceState* state)
      : Elementwise(state), max_output_(def.relu().has_max() ? def.relu().max() : INFINITY) {}

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    const Tensor& x = *inputs[0];
    slopes_.clear();
    for (const double value : x.values) slopes_.push_back(value > 0 && value < max_output_ ? 1 : 0);
    for (size_t i = 0; i < x.values.size(); ++i)
      y->values[i] = std::min(std::max(x.values[i], 0.0), max_output_);
  }

 private:
  const double max_output_;
};

class Gelu : public Elementwise {
 public:
  using Elementwise::Elementwise;

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    const std::vector<double>& x = inputs[0]->values;
    slopes_.clear();
    for (size_t i = 0; i < x.size(); ++i) {
      const double below = std::erfc(-x[i] / std::sqrt(2.0)) / 2;  // P(X <= x)
      slopes_.push_back(below + x[i] * std::exp(-x[i] * x[i] / 2) / std::sqrt(2 * std::acos(-1.0)));
      y->values[i] = x[i] * below;
    }
  }
};

class Scale : public Elementwise {
 public:
  Scale(const pb::LayerDef& def, ReferenceState* state)
      : Elementwise(state), factor_(def.scale().factor()) {}

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    slopes_.assign(y->values.size(), factor_);
    MultiplyBySlopes(*inputs[0], y);
  }

 private:
  const double factor_;
};

class Dropout : public Elementwise {
 public:
  Dropout(const pb::LayerDef& def, ReferenceState* state)
      : Elementwise(state), rate_(def.dropout().rate()) {}

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    slopes_.assign(y->values.size(), 1);
    for (size_t i = 0; state_.training && i < slopes_.size(); ++i) {
      const auto noise_words = kernels::NoiseBlock(state_.noise, static_cast<uint32_t>(i / 8), 0);
      const uint32_t draw = noise_words[i % 8 / 2] >> (i % 2 * 16) & 0xffff;
      slopes_[i] = draw < std::lround(rate_ * 65536) ? 0 : 1 / (1 - rate_);
    }
    MultiplyBySlopes(*inputs[0], y);
  }

 private:
  const double rate_;
};

// Normalizes each channel: in training with the mean and variance over all samples and pixels of
// the batch, otherwise with the running ones.
class BatchNorm : public ReferenceLayer {
 public:
  BatchNorm(const pb::LayerDef& def, ReferenceState* state)
      : ReferenceLayer(state), def_(def.batch_norm()) {}

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    const Tensor& x = *inputs[0];
    normalized_ = x;
    inverse_deviations_.resize(x.c);
    for (size_t c = 0; c < x.c; ++c) {
      double mean = state_.statistics[0][c], variance = state_.statistics[1][c];
      if (state_.training) MeasureAndUpdateStatistics(x, c, &mean, &variance);
      inverse_deviations_[c] = 1 / std::sqrt(variance + def_.epsilon());
      ForEachPixel(x, [&](size_t n, size_t i) {
        normalized_.At(n, c, 0, i) = (x.At(n, c, 0, i) - mean) * inverse_deviations_[c];
        y->At(n, c, 0, i) =
            normalized_.At(n, c, 0, i) * state_.parameters[0][c] + state_.parameters[1][c];
      });
    }
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = dy;
    const auto count = static_cast<double>(dy.n * dy.h * dy.w);
    for (size_t c = 0; c < dy.c; ++c) {
      double sum = 0, dy_dot_normalized = 0;
      ForEachPixel(dy, [&](size_t n, size_t i) {
        sum += dy.At(n, c, 0, i);
        dy_dot_normalized += dy.At(n, c, 0, i) * normalized_.At(n, c, 0, i);
      });
      state_.gradients[0][c] += dy_dot_normalized;
      state_.gradients[1][c] += sum;
      ForEachPixel(dy, [&](size_t n, size_t i) {
        dx.At(n, c, 0, i) = (dy.At(n, c, 0, i) - sum / count -
                             normalized_.At(n, c, 0, i) * dy_dot_normalized / count) *
                            inverse_deviations_[c] * state_.parameters[0][c];
      });
    }
    return {dx};
  }

 private:
  template <typename Visit>
  static void ForEachPixel(const Tensor& x, const Visit& visit) {
    for (size_t n = 0; n < x.n; ++n)
      for (size_t i = 0; i < x.h * x.w; ++i) visit(n, i);
  }
  void MeasureAndUpdateStatistics(const Tensor& x, size_t c, double* mean, double* variance) {
    const auto count = static_cast<double>(x.n * x.h * x.w);
    *mean = *variance = 0;
    ForEachPixel(x, [&](size_t n, size_t i) { *mean += x.At(n, c, 0, i) / count; });
    ForEachPixel(
        x, [&](size_t n, size_t i) { *variance += std::pow(x.At(n, c, 0, i) - *mean, 2) / count; });
    const double momentum = def_.momentum(), unbiased_factor = count > 1 ? count / (count - 1) : 1;
    state_.statistics[0][c] += momentum * (*mean - state_.statistics[0][c]);
    state_.statistics[1][c] += momentum * (unbiased_factor * *variance - state_.statistics[1][c]);
  }

  const pb::BatchNormDef& def_;
  Tensor normalized_;
  std::vector<double> inverse_deviations_;
};

class Lrn : public ReferenceLayer {
 public:
  Lrn(const pb::LayerDef& def, ReferenceState* state) : ReferenceLayer(state), def_(def.lrn()) {}

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    x_ = *inputs[0];
    power_base_ = x_.Zeros();
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t c = 0; c < x_.c; ++c) {
        for (size_t i = 0; i < x_.h * x_.w; ++i) {
          double squares = 0;
          ForEachNeighbour(c, [&](size_t k) { squares += std::pow(x_.At(n, k, 0, i), 2); });
          power_base_.At(n, c, 0, i) = def_.k() + def_.alpha() / def_.size() * squares;
          y->At(n, c, 0, i) =
              x_.At(n, c, 0, i) * std::pow(power_base_.At(n, c, 0, i), -def_.beta());
        }
      }
    }
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = x_.Zeros();
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t c = 0; c < x_.c; ++c) {
        for (size_t i = 0; i < x_.h * x_.w; ++i) {
          const double base = power_base_.At(n, c, 0, i), dy_element = dy.At(n, c, 0, i);
          dx.At(n, c, 0, i) += dy_element * std::pow(base, -def_.beta());
          const double gradient_of_base =
              -def_.beta() * std::pow(base, -def_.beta() - 1) * x_.At(n, c, 0, i) * dy_element;
          ForEachNeighbour(c, [&](size_t k) {
            dx.At(n, k, 0, i) +=
                gradient_of_base * 2 * def_.alpha() / def_.size() * x_.At(n, k, 0, i);
          });
        }
      }
    }
    return {dx};
  }

 private:
  template <typename Visit>
  void ForEachNeighbour(size_t c, const Visit& visit) const {
    const size_t half = def_.size() / 2;
    for (size_t k = c > half ? c - half : 0; k <= c + half && k < x_.c; ++k) visit(k);
  }

  const pb::LrnDef& def_;
  Tensor x_, power_base_;
};

class Concat : public ReferenceLayer {
 public:
  using ReferenceLayer::ReferenceLayer;

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    inputs_.clear();
    size_t first_element = 0;
    for (const Tensor* input : inputs) {
      inputs_.push_back(input->Zeros());
      for (size_t n = 0; n < y->n; ++n)
        for (size_t i = 0; i < ElementsPerSample(*input); ++i)
          y->values[n * ElementsPerSample(*y) + first_element + i] =
              input->values[n * ElementsPerSample(*input) + i];
      first_element += ElementsPerSample(*input);
    }
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    size_t first_element = 0;
    for (Tensor& input : inputs_) {
      for (size_t n = 0; n < dy.n; ++n)
        for (size_t i = 0; i < ElementsPerSample(input); ++i)
          input.values[n * ElementsPerSample(input) + i] =
              dy.values[n * ElementsPerSample(dy) + first_element + i];
      first_element += ElementsPerSample(input);
    }
    return inputs_;
  }

 private:
  static size_t ElementsPerSample(const Tensor& x) { return x.c * x.h * x.w; }
  std::vector<Tensor> inputs_;
};

class Add : public ReferenceLayer {
 public:
  using ReferenceLayer::ReferenceLayer;

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    input_count_ = inputs.size();
    for (const Tensor* input : inputs)
      for (size_t i = 0; i < y->values.size(); ++i) y->values[i] += input->values[i];
  }
  std::vector<Tensor> Backward(const Tensor& dy) override {
    return std::vector<Tensor>(input_count_, dy);
  }

 private:
  size_t input_count_ = 0;
};

class Standardize : public ReferenceLayer {
 public:
  using ReferenceLayer::ReferenceLayer;

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    const Tensor& x = *inputs[0];
    const size_t sample_elements = x.values.size() / x.n;
    const auto count_as_double = static_cast<double>(sample_elements);
    inverse_deviations_.clear();
    is_above_min_deviation_.clear();
    for (size_t n = 0; n < x.n; ++n) {
      double mean = 0, squares = 0;
      for (size_t i = 0; i < sample_elements; ++i)
        mean += x.values[n * sample_elements + i] / count_as_double;
      for (size_t i = 0; i < sample_elements; ++i)
        squares += std::pow(x.values[n * sample_elements + i] - mean, 2);
      const double deviation = std::sqrt(squares / count_as_double);
      is_above_min_deviation_.push_back(deviation > 1 / std::sqrt(count_as_double));
      inverse_deviations_.push_back(1 / std::max(deviation, 1 / std::sqrt(count_as_double)));
      for (size_t i = 0; i < sample_elements; ++i)
        y->values[n * sample_elements + i] =
            (x.values[n * sample_elements + i] - mean) * inverse_deviations_[n];
    }
    y_ = *y;
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = dy;
    const size_t sample_elements = dy.values.size() / dy.n;
    for (size_t n = 0; n < dy.n; ++n) {
      double sum = 0, dy_dot_y = 0;
      for (size_t i = 0; i < sample_elements; ++i) {
        sum += dy.values[n * sample_elements + i] / static_cast<double>(sample_elements);
        dy_dot_y += dy.values[n * sample_elements + i] * y_.values[n * sample_elements + i] /
                    static_cast<double>(sample_elements);
      }
      if (!is_above_min_deviation_[n]) dy_dot_y = 0;
      for (size_t i = 0; i < sample_elements; ++i) {
        dx.values[n * sample_elements + i] = (dy.values[n * sample_elements + i] - sum -
                                              dy_dot_y * y_.values[n * sample_elements + i]) *
                                             inverse_deviations_[n];
      }
    }
    return {dx};
  }

 private:
  Tensor y_;
  std::vector<double> inverse_deviations_;
  // By sample: whether the deviation is above the bound 1 / sqrt(elements). If not, Forward divides
  // by this bound.
  std::vector<bool> is_above_min_deviation_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeReferenceLayer(const pb::LayerDef& def, ReferenceState* state) {
  switch (def.kind_case()) {
    case pb::LayerDef::kDense:
      return std::make_unique<Dense>(state);
    case pb::LayerDef::kRelu:
      return std::make_unique<Relu>(def, state);
    case pb::LayerDef::kGelu:
      return std::make_unique<Gelu>(state);
    case pb::LayerDef::kScale:
      return std::make_unique<Scale>(def, state);
    case pb::LayerDef::kBatchNorm:
      return std::make_unique<BatchNorm>(def, state);
    case pb::LayerDef::kLrn:
      return std::make_unique<Lrn>(def, state);
    case pb::LayerDef::kDropout:
      return std::make_unique<Dropout>(def, state);
    case pb::LayerDef::kConcat:
      return std::make_unique<Concat>(state);
    case pb::LayerDef::kAdd:
      return std::make_unique<Add>(state);
    case pb::LayerDef::kStandardize:
      return std::make_unique<Standardize>(state);
    default:
      return MakeReferenceWindow(def, state);
  }
}

}  // namespace tern::engine
