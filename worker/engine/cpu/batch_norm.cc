// Batch norm. The addition and the ReLU behind it run in the same passes. Sums over images are
// added in image order, in double, so they do not depend on the threads.
#include "kernels/nn/batch_norm.h"

#include <cmath>

#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using dnnl::memory;
using kernels::kNormChannels;

// A tensor larger than this has left the near caches before the next layer reads it.
constexpr size_t kCaches = size_t{4} << 20;

// The memory layout of a batch: channels last, or in blocks of channels.
struct Geometry {
  size_t batch = 0, channels = 0, pixels = 0;
  bool blocked = false;

  size_t Bytes() const { return batch * channels * pixels * sizeof(float); }
  size_t blocks() const { return (channels + kNormChannels - 1) / kNormChannels; }
  // The offset of image n, channels [16 k, 16 k + 16).
  size_t At(size_t n, size_t k) const {
    return n * channels * pixels + k * kNormChannels * (blocked ? pixels : 1);
  }
  kernels::Slab SlabOf(size_t k) const {
    return {pixels, blocked ? kNormChannels : channels,
            std::min(kNormChannels, channels - k * kNormChannels)};
  }
  // Calls work(n, k) for all slabs, on all threads.
  template <typename Work>
  void ForSlabs(const Work& work) const {
#pragma omp parallel for collapse(2)
    for (size_t n = 0; n < batch; ++n)
      for (size_t k = 0; k < blocks(); ++k) work(n, k);
  }
};

// Two sums per channel of each image, and their totals.
class ImageSums {
 public:
  explicit ImageSums(const Geometry& geometry)
      : channels_(geometry.channels), sums_(2 * geometry.batch * channels_) {}

  void Clear() { std::fill(sums_.begin(), sums_.end(), 0.f); }
  float* First(size_t n, size_t channel) { return &sums_[2 * n * channels_ + channel]; }
  float* Second(size_t n, size_t channel) { return First(n, channel) + channels_; }
  std::pair<double, double> Totals(size_t channel) const {
    double first = 0, second = 0;
    for (size_t at = channel; at < sums_.size(); at += 2 * channels_) {
      first += sums_[at];
      second += sums_[at + channels_];
    }
    return {first, second};
  }

 private:
  size_t channels_;
  std::vector<float> sums_;
};

// The sizes, the constants and the arrays of one batch norm layer.
struct Norm {
  Geometry geometry;
  bool training = false, relu = false;
  double epsilon = 0, momentum = 0;
  const float *gamma = nullptr, *beta = nullptr;
  float *gamma_gradient = nullptr, *beta_gradient = nullptr;
  float *running_mean = nullptr, *running_variance = nullptr;
  ImageSums sums;
  std::vector<float> mean, scale, shift, slope, offset;
  std::vector<double> inverse;  // 1 / d

  explicit Norm(const Geometry& of)
      : geometry(of),
        sums(of),
        mean(of.channels),
        scale(of.channels),
        shift(of.channels),
        slope(of.channels),
        offset(of.channels),
        inverse(of.channels) {}

  void Forward(const float* x, const float* r, float* y);
  // `g`: receives dy where the ReLU passed it, as the gradient of the added input (nullptr: no
  // input was added). `y` is used only then.
  void Backward(const float* x, const float* y, const float* dy, float* g, float* dx);

 private:
  double Count() const { return static_cast<double>(geometry.batch * geometry.pixels); }
  void ComputeMoments(const float* x);
  // Moves the running mean and variance of channel c: new = (1 - momentum) old + momentum fresh.
  // The variance is scaled by n / (n - 1).
  void UpdateRunning(size_t c, double fresh_mean, double variance);
  void SetScale(size_t c, double at, double variance);
};

void Norm::UpdateRunning(size_t c, double fresh_mean, double variance) {
  const double unbiased = Count() > 1 ? Count() / (Count() - 1) : 1;
  running_mean[c] = static_cast<float>((1 - momentum) * running_mean[c] + momentum * fresh_mean);
  running_variance[c] =
      static_cast<float>((1 - momentum) * running_variance[c] + momentum * unbiased * variance);
}

void Norm::SetScale(size_t c, double at, double variance) {
  inverse[c] = 1 / std::sqrt(variance + epsilon);
  mean[c] = static_cast<float>(at);
  scale[c] = static_cast<float>(gamma[c] * inverse[c]);
  shift[c] = static_cast<float>(beta[c] - at * gamma[c] * inverse[c]);
}

void Norm::ComputeMoments(const float* x) {
  // The first pixel of each channel serves as a pivot near the mean.
  for (size_t c = 0; c < geometry.channels; ++c)
    mean[c] = x[geometry.At(0, c / kNormChannels) + c % kNormChannels];
  sums.Clear();
  geometry.ForSlabs([&](size_t n, size_t k) {
    const size_t c = k * kNormChannels;
    kernels::NormMoments(x + geometry.At(n, k), geometry.SlabOf(k), &mean[c], sums.First(n, c),
                         sums.Second(n, c));
  });
  for (size_t c = 0; c < geometry.channels; ++c) {
    const auto [sum, squares] = sums.Totals(c);
    const double beyond = sum / Count();
    const double variance = std::max(0.0, squares / Count() - beyond * beyond);
    const double at = mean[c] + beyond;
    UpdateRunning(c, at, variance);
    SetScale(c, at, variance);
  }
}

void Norm::Forward(const float* x, const float* r, float* y) {
  if (training) {
    ComputeMoments(x);
  } else {
    for (size_t c = 0; c < geometry.channels; ++c)
      SetScale(c, running_mean[c], running_variance[c]);
  }
  geometry.ForSlabs([&](size_t n, size_t k) {
    const size_t at = geometry.At(n, k), c = k * kNormChannels;
    kernels::NormApply(x + at, r == nullptr ? nullptr : r + at, geometry.SlabOf(k), &scale[c],
                       &shift[c], relu, geometry.Bytes() > kCaches, y + at);
  });
}

void Norm::Backward(const float* x, const float* y, const float* dy, float* g, float* dx) {
  const auto mask = [&](size_t at, size_t c, bool passed) {
    return kernels::NormMask{relu && !passed, y == nullptr ? nullptr : y + at, &scale[c],
                             &shift[c]};
  };
  sums.Clear();
  geometry.ForSlabs([&](size_t n, size_t k) {
    const size_t at = geometry.At(n, k), c = k * kNormChannels;
    kernels::NormBackwardSums(x + at, dy + at, geometry.SlabOf(k), mask(at, c, false), &mean[c],
                              sums.First(n, c), sums.Second(n, c), g == nullptr ? nullptr : g + at);
  });
  for (size_t c = 0; c < geometry.channels; ++c) {
    const auto [sum, product] = sums.Totals(c);
    gamma_gradient[c] = static_cast<float>(product * inverse[c]);
    beta_gradient[c] = static_cast<float>(sum);
    slope[c] =
        static_cast<float>(-gamma[c] * inverse[c] * inverse[c] * inverse[c] * product / Count());
    offset[c] = static_cast<float>(-gamma[c] * inverse[c] * sum / Count());
  }
  const bool passed = g != nullptr;
  geometry.ForSlabs([&](size_t n, size_t k) {
    const size_t at = geometry.At(n, k), c = k * kNormChannels;
    kernels::NormBackwardApply(x + at, (passed ? g : dy) + at, geometry.SlabOf(k),
                               mask(at, c, passed), &mean[c], &scale[c], &slope[c], &offset[c],
                               dx + at);
  });
}

class BatchNorm : public Layer {
 public:
  explicit BatchNorm(const LayerSpec& spec)
      : spec_(spec), desc_(Activation(DimsOf(spec.batch, spec.output))) {
    const models::ImageDims& image = spec.output;
    norm_ = std::make_shared<Norm>(Geometry{spec.batch, image.c, size_t{image.h} * image.w,
                                            ActivationTag(image.c) == kBlocked});
    norm_->training = spec.training;
    norm_->relu = spec.relu;
    norm_->epsilon = spec.def->batch_norm().epsilon();
    norm_->momentum = spec.def->batch_norm().momentum();
    norm_->gamma = spec.parameters[0].values;
    norm_->beta = spec.parameters[1].values;
    norm_->gamma_gradient = spec.parameters[0].gradient;
    norm_->beta_gradient = spec.parameters[1].gradient;
    norm_->running_mean = spec.statistics[0];
    norm_->running_variance = spec.statistics[1];
  }

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    input_ = program->Convert(inputs[0], desc_);
    output_ = program->NewValue(desc_);
    std::vector<Value> values = {input_, output_};
    if (Adds()) values.push_back(program->Convert(inputs[1], desc_));
    program->Call(values, [norm = norm_](const std::vector<float*>& data) {
      norm->Forward(data[0], data.size() > 2 ? data[2] : nullptr, data[1]);
    });
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    const Value from = program->Convert(gradient, desc_);
    if (!Adds()) return {AddPlain(program, from)};
    if (!spec_.relu) {
      Value passed = from;
      passed.shared = true;
      return {AddPlain(program, passed), passed};
    }
    Value passed = program->InPlace(from);
    passed.shared = wanted[1];
    const Value input_gradient = program->NewValue(desc_);
    program->Call({input_, output_, from, passed, input_gradient},
                  [norm = norm_](const std::vector<float*>& data) {
                    norm->Backward(data[0], data[1], data[2], data[3], data[4]);
                  });
    return {input_gradient, passed};
  }

 private:
  bool Adds() const { return spec_.inputs.size() > 1; }

  Value AddPlain(Program* program, const Value& from) {
    const Value to = program->InPlace(from);
    program->Call({input_, from, to}, [norm = norm_](const std::vector<float*>& data) {
      norm->Backward(data[0], nullptr, data[1], nullptr, data[2]);
    });
    return to;
  }

  const LayerSpec spec_;
  const memory::desc desc_;
  std::shared_ptr<Norm> norm_;  // shared by the steps of both passes
  Value input_, output_;
};

}  // namespace

std::unique_ptr<Layer> MakeBatchNorm(const LayerSpec& spec) {
  return std::make_unique<BatchNorm>(spec);
}

}  // namespace tern::engine
