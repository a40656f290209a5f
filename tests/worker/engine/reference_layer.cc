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
    const size_t reads = x_.c * x_.h * x_.w;
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t o = 0; o < y->c; ++o) {
        double sum = state_.parameters[1][o];
        for (size_t i = 0; i < reads; ++i)
          sum += state_.parameters[0][o * reads + i] * x_.values[n * reads + i];
        y->At(n, o, 0, 0) = sum;
      }
    }
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = x_.Zeros();
    const size_t reads = x_.c * x_.h * x_.w;
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t o = 0; o < dy.c; ++o) {
        const double d = dy.At(n, o, 0, 0);
        state_.gradients[1][o] += d;
        for (size_t i = 0; i < reads; ++i) {
          state_.gradients[0][o * reads + i] += d * x_.values[n * reads + i];
          dx.values[n * reads + i] += d * state_.parameters[0][o * reads + i];
        }
      }
    }
    return {dx};
  }

 private:
  Tensor x_;
};

// An element-wise function y = f(x). `slope_` has the derivative f'(x) of every element.
class Elementwise : public ReferenceLayer {
 public:
  using ReferenceLayer::ReferenceLayer;

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = dy;
    for (size_t i = 0; i < slope_.size(); ++i) dx.values[i] *= slope_[i];
    return {dx};
  }

 protected:
  void Multiply(const Tensor& x, Tensor* y) {
    for (size_t i = 0; i < slope_.size(); ++i) y->values[i] = slope_[i] * x.values[i];
  }
  std::vector<double> slope_;
};

class Relu : public Elementwise {
 public:
  Relu(const pb::LayerDef& def, ReferenceState* state)
      : Elementwise(state), most_(def.relu().has_max() ? def.relu().max() : INFINITY) {}

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    const Tensor& x = *inputs[0];
    slope_.clear();
    for (const double v : x.values) slope_.push_back(v > 0 && v < most_ ? 1 : 0);
    for (size_t i = 0; i < x.values.size(); ++i)
      y->values[i] = std::min(std::max(x.values[i], 0.0), most_);
  }

 private:
  const double most_;
};

class Dropout : public Elementwise {
 public:
  Dropout(const pb::LayerDef& def, ReferenceState* state)
      : Elementwise(state), rate_(def.dropout().rate()) {}

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    slope_.assign(y->values.size(), 1);
    for (size_t i = 0; state_.training && i < slope_.size(); ++i) {
      const auto words = kernels::NoiseBlock(state_.noise, static_cast<uint32_t>(i / 8), 0);
      const uint32_t draw = words[i % 8 / 2] >> (i % 2 * 16) & 0xffff;
      slope_[i] = draw < std::lround(rate_ * 65536) ? 0 : 1 / (1 - rate_);
    }
    Multiply(*inputs[0], y);
  }

 private:
  const double rate_;
};

// Normalizes each channel over all samples and pixels.
class BatchNorm : public ReferenceLayer {
 public:
  BatchNorm(const pb::LayerDef& def, ReferenceState* state)
      : ReferenceLayer(state), def_(def.batch_norm()) {}

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    const Tensor& x = *inputs[0];
    normal_ = x;
    scale_.resize(x.c);
    for (size_t c = 0; c < x.c; ++c) {
      double mean = state_.statistics[0][c], variance = state_.statistics[1][c];
      if (state_.training) Measure(x, c, &mean, &variance);
      scale_[c] = 1 / std::sqrt(variance + def_.epsilon());
      ForEach(x, [&](size_t n, size_t i) {
        normal_.At(n, c, 0, i) = (x.At(n, c, 0, i) - mean) * scale_[c];
        y->At(n, c, 0, i) =
            normal_.At(n, c, 0, i) * state_.parameters[0][c] + state_.parameters[1][c];
      });
    }
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = dy;
    const auto count = static_cast<double>(dy.n * dy.h * dy.w);
    for (size_t c = 0; c < dy.c; ++c) {
      double sum = 0, along = 0;
      ForEach(dy, [&](size_t n, size_t i) {
        sum += dy.At(n, c, 0, i);
        along += dy.At(n, c, 0, i) * normal_.At(n, c, 0, i);
      });
      state_.gradients[0][c] += along;
      state_.gradients[1][c] += sum;
      ForEach(dy, [&](size_t n, size_t i) {
        dx.At(n, c, 0, i) =
            (dy.At(n, c, 0, i) - sum / count - normal_.At(n, c, 0, i) * along / count) * scale_[c] *
            state_.parameters[0][c];
      });
    }
    return {dx};
  }

 private:
  template <typename Visit>
  static void ForEach(const Tensor& x, const Visit& visit) {
    for (size_t n = 0; n < x.n; ++n)
      for (size_t i = 0; i < x.h * x.w; ++i) visit(n, i);
  }
  void Measure(const Tensor& x, size_t c, double* mean, double* variance) {
    const auto count = static_cast<double>(x.n * x.h * x.w);
    *mean = *variance = 0;
    ForEach(x, [&](size_t n, size_t i) { *mean += x.At(n, c, 0, i) / count; });
    ForEach(
        x, [&](size_t n, size_t i) { *variance += std::pow(x.At(n, c, 0, i) - *mean, 2) / count; });
    const double m = def_.momentum(), unbiased = count > 1 ? count / (count - 1) : 1;
    state_.statistics[0][c] += m * (*mean - state_.statistics[0][c]);
    state_.statistics[1][c] += m * (unbiased * *variance - state_.statistics[1][c]);
  }

  const pb::BatchNormDef& def_;
  Tensor normal_;
  std::vector<double> scale_;
};

class Lrn : public ReferenceLayer {
 public:
  Lrn(const pb::LayerDef& def, ReferenceState* state) : ReferenceLayer(state), def_(def.lrn()) {}

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    x_ = *inputs[0];
    base_ = x_.Zeros();
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t c = 0; c < x_.c; ++c) {
        for (size_t i = 0; i < x_.h * x_.w; ++i) {
          double squares = 0;
          ForEachAround(c, [&](size_t k) { squares += std::pow(x_.At(n, k, 0, i), 2); });
          base_.At(n, c, 0, i) = def_.k() + def_.alpha() / def_.size() * squares;
          y->At(n, c, 0, i) = x_.At(n, c, 0, i) * std::pow(base_.At(n, c, 0, i), -def_.beta());
        }
      }
    }
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = x_.Zeros();
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t c = 0; c < x_.c; ++c) {
        for (size_t i = 0; i < x_.h * x_.w; ++i) {
          const double base = base_.At(n, c, 0, i), d = dy.At(n, c, 0, i);
          dx.At(n, c, 0, i) += d * std::pow(base, -def_.beta());
          const double by_base =
              -def_.beta() * std::pow(base, -def_.beta() - 1) * x_.At(n, c, 0, i) * d;
          ForEachAround(c, [&](size_t k) {
            dx.At(n, k, 0, i) += by_base * 2 * def_.alpha() / def_.size() * x_.At(n, k, 0, i);
          });
        }
      }
    }
    return {dx};
  }

 private:
  template <typename Visit>
  void ForEachAround(size_t c, const Visit& visit) const {
    const size_t half = def_.size() / 2;
    for (size_t k = c > half ? c - half : 0; k <= c + half && k < x_.c; ++k) visit(k);
  }

  const pb::LrnDef& def_;
  Tensor x_, base_;
};

class Concat : public ReferenceLayer {
 public:
  using ReferenceLayer::ReferenceLayer;

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    inputs_.clear();
    size_t first = 0;
    for (const Tensor* input : inputs) {
      inputs_.push_back(input->Zeros());
      for (size_t n = 0; n < y->n; ++n)
        for (size_t i = 0; i < Size(*input); ++i)
          y->values[n * Size(*y) + first + i] = input->values[n * Size(*input) + i];
      first += Size(*input);
    }
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    size_t first = 0;
    for (Tensor& input : inputs_) {
      for (size_t n = 0; n < dy.n; ++n)
        for (size_t i = 0; i < Size(input); ++i)
          input.values[n * Size(input) + i] = dy.values[n * Size(dy) + first + i];
      first += Size(input);
    }
    return inputs_;
  }

 private:
  static size_t Size(const Tensor& x) { return x.c * x.h * x.w; }
  std::vector<Tensor> inputs_;
};

class Add : public ReferenceLayer {
 public:
  using ReferenceLayer::ReferenceLayer;

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    count_ = inputs.size();
    for (const Tensor* input : inputs)
      for (size_t i = 0; i < y->values.size(); ++i) y->values[i] += input->values[i];
  }
  std::vector<Tensor> Backward(const Tensor& dy) override {
    return std::vector<Tensor>(count_, dy);
  }

 private:
  size_t count_ = 0;
};

class Standardize : public ReferenceLayer {
 public:
  using ReferenceLayer::ReferenceLayer;

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    const Tensor& x = *inputs[0];
    const size_t size = x.values.size() / x.n;
    const auto count = static_cast<double>(size);
    scale_.clear();
    by_deviation_.clear();
    for (size_t n = 0; n < x.n; ++n) {
      double mean = 0, squares = 0;
      for (size_t i = 0; i < size; ++i) mean += x.values[n * size + i] / count;
      for (size_t i = 0; i < size; ++i) squares += std::pow(x.values[n * size + i] - mean, 2);
      const double deviation = std::sqrt(squares / count);
      by_deviation_.push_back(deviation > 1 / std::sqrt(count));
      scale_.push_back(1 / std::max(deviation, 1 / std::sqrt(count)));
      for (size_t i = 0; i < size; ++i)
        y->values[n * size + i] = (x.values[n * size + i] - mean) * scale_[n];
    }
    y_ = *y;
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = dy;
    const size_t size = dy.values.size() / dy.n;
    for (size_t n = 0; n < dy.n; ++n) {
      double sum = 0, along = 0;
      for (size_t i = 0; i < size; ++i) {
        sum += dy.values[n * size + i] / static_cast<double>(size);
        along += dy.values[n * size + i] * y_.values[n * size + i] / static_cast<double>(size);
      }
      if (!by_deviation_[n]) along = 0;
      for (size_t i = 0; i < size; ++i) {
        dx.values[n * size + i] =
            (dy.values[n * size + i] - sum - along * y_.values[n * size + i]) * scale_[n];
      }
    }
    return {dx};
  }

 private:
  Tensor y_;
  std::vector<double> scale_;
  std::vector<bool> by_deviation_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeReferenceLayer(const pb::LayerDef& def, ReferenceState* state) {
  switch (def.kind_case()) {
    case pb::LayerDef::kDense:
      return std::make_unique<Dense>(state);
    case pb::LayerDef::kRelu:
      return std::make_unique<Relu>(def, state);
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
