// Batch norm on the CPU. An addition and a ReLU that follow the batch norm run in the same passes
// over memory. Sums of the images are added up in the order of the images, in double, so the result
// does not depend on the number of threads.
#include "kernels/nn/batch_norm.h"

#include <cmath>

#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using dnnl::memory;
using kernels::kNormChannels;

// An estimate of the size of the caches near a core, in bytes. Of a larger tensor, little is still
// in the caches when the next layer reads the tensor.
constexpr size_t kCacheBytes = size_t{4} << 20;

// The shape and memory layout of a batch of images: channels last, or in blocks of 16 channels.
// Below, n is the number of an image and k the number of a block. In both layouts, block k means
// the channels [16 k, 16 k + 16).
struct Geometry {
  size_t batch = 0, channels = 0, pixels = 0;
  bool is_blocked = false;

  size_t NumBytes() const { return batch * channels * pixels * sizeof(float); }
  size_t NumBlocks() const { return (channels + kNormChannels - 1) / kNormChannels; }
  // The index of the first element of block k of image n.
  size_t OffsetOf(size_t n, size_t k) const {
    return n * channels * pixels + k * kNormChannels * (is_blocked ? pixels : 1);
  }
  // Describes block k of an image to the kernels: the number of pixels, the distance from pixel to
  // pixel in floats, and the number of channels.
  kernels::Slab SlabOf(size_t k) const {
    return {pixels, is_blocked ? kNormChannels : channels,
            std::min(kNormChannels, channels - k * kNormChannels)};
  }
  // Calls work(n, k) for all blocks of all images, on all threads.
  template <typename Work>
  void ForEachBlock(const Work& work) const {
#pragma omp parallel for collapse(2)
    for (size_t n = 0; n < batch; ++n)
      for (size_t k = 0; k < NumBlocks(); ++k) work(n, k);
  }
};

// Two sums for each channel of each image n of the batch, and their totals over the images.
class ImageSums {
 public:
  explicit ImageSums(const Geometry& geometry)
      : channels_(geometry.channels), sums_(2 * geometry.batch * channels_) {}

  void Clear() { std::fill(sums_.begin(), sums_.end(), 0.f); }
  float* FirstSums(size_t n, size_t channel) { return &sums_[2 * n * channels_ + channel]; }
  float* SecondSums(size_t n, size_t channel) { return FirstSums(n, channel) + channels_; }
  std::pair<double, double> Totals(size_t channel) const {
    double first_total = 0, second_total = 0;
    for (size_t i = channel; i < sums_.size(); i += 2 * channels_) {
      first_total += sums_[i];
      second_total += sums_[i + channels_];
    }
    return {first_total, second_total};
  }

 private:
  size_t channels_;
  std::vector<float> sums_;
};

// The sizes, constants, arrays and computations of one batch norm layer. In its formulas, x is the
// input, r the tensor that is added (if any), y the output, dx and dy are gradients, and
// d = sqrt(variance + epsilon).
struct Norm {
  Geometry geometry;
  // Whether mean and variance are those of the batch, and become part of the running ones.
  bool uses_batch_moments = false;
  bool has_relu = false;
  double epsilon = 0, momentum = 0;
  const float *gamma = nullptr, *beta = nullptr;
  float *gamma_gradient = nullptr, *beta_gradient = nullptr;
  float *running_mean = nullptr, *running_variance = nullptr;
  ImageSums sums;
  // Coefficients, one per channel: without ReLU, y = scale x + shift + r and
  // dx = scale dy + slope (x - mean) + offset.
  std::vector<float> mean, scale, shift, slope, offset;
  std::vector<double> inverse;  // 1 / d

  explicit Norm(const Geometry& shape)
      : geometry(shape),
        sums(shape),
        mean(shape.channels),
        scale(shape.channels),
        shift(shape.channels),
        slope(shape.channels),
        offset(shape.channels),
        inverse(shape.channels) {}

  void Forward(const float* x, const float* r, float* y);
  // Computes dx and, unless the layer is frozen, the gradients of gamma and beta. If a tensor was
  // added before a ReLU, writes that tensor's gradient to `g`: dy where y > 0, else 0. Otherwise
  // `g` and `y` are null.
  void Backward(const float* x, const float* y, const float* dy, float* g, float* dx);

 private:
  // The number of values of a channel in the batch.
  double ValuesPerChannel() const { return static_cast<double>(geometry.batch * geometry.pixels); }
  // Computes mean and variance of each channel of the batch, updates the running mean and variance,
  // and calls SetScale.
  void ComputeMoments(const float* x);
  // Updates the running mean and variance of channel c:
  // running = (1 - momentum) running + momentum batch_value. If m = ValuesPerChannel() is above 1,
  // the variance of the batch is first multiplied by m / (m - 1).
  void UpdateRunning(size_t c, double batch_mean, double variance);
  // Sets mean, inverse, scale and shift of channel c.
  void SetScale(size_t c, double channel_mean, double variance);
};

void Norm::UpdateRunning(size_t c, double batch_mean, double variance) {
  const double unbiased_factor =
      ValuesPerChannel() > 1 ? ValuesPerChannel() / (ValuesPerChannel() - 1) : 1;
  running_mean[c] = static_cast<float>((1 - momentum) * running_mean[c] + momentum * batch_mean);
  running_variance[c] = static_cast<float>((1 - momentum) * running_variance[c] +
                                           momentum * unbiased_factor * variance);
}

void Norm::SetScale(size_t c, double channel_mean, double variance) {
  inverse[c] = 1 / std::sqrt(variance + epsilon);
  mean[c] = static_cast<float>(channel_mean);
  scale[c] = static_cast<float>(gamma[c] * inverse[c]);
  shift[c] = static_cast<float>(beta[c] - channel_mean * gamma[c] * inverse[c]);
}

void Norm::ComputeMoments(const float* x) {
  // Sums differences from the channel's first pixel instead of the values themselves, which is more
  // precise because that pixel is near the mean.
  for (size_t c = 0; c < geometry.channels; ++c)
    mean[c] = x[geometry.OffsetOf(0, c / kNormChannels) + c % kNormChannels];
  sums.Clear();
  geometry.ForEachBlock([&](size_t n, size_t k) {
    const size_t c = k * kNormChannels;
    kernels::NormMoments(x + geometry.OffsetOf(n, k), geometry.SlabOf(k), &mean[c],
                         sums.FirstSums(n, c), sums.SecondSums(n, c));
  });
  for (size_t c = 0; c < geometry.channels; ++c) {
    const auto [sum, sum_of_squares] = sums.Totals(c);
    const double mean_difference = sum / ValuesPerChannel();
    const double variance =
        std::max(0.0, sum_of_squares / ValuesPerChannel() - mean_difference * mean_difference);
    const double batch_mean = mean[c] + mean_difference;
    UpdateRunning(c, batch_mean, variance);
    SetScale(c, batch_mean, variance);
  }
}

void Norm::Forward(const float* x, const float* r, float* y) {
  if (uses_batch_moments) {
    ComputeMoments(x);
  } else {
    for (size_t c = 0; c < geometry.channels; ++c)
      SetScale(c, running_mean[c], running_variance[c]);
  }
  geometry.ForEachBlock([&](size_t n, size_t k) {
    const size_t block_begin = geometry.OffsetOf(n, k), c = k * kNormChannels;
    kernels::NormApply(x + block_begin, r == nullptr ? nullptr : r + block_begin,
                       geometry.SlabOf(k), &scale[c], &shift[c], has_relu,
                       geometry.NumBytes() > kCacheBytes, y + block_begin);
  });
}

void Norm::Backward(const float* x, const float* y, const float* dy, float* g, float* dx) {
  const auto mask_of = [&](size_t block_begin, size_t c, bool is_masked) {
    return kernels::NormMask{has_relu && !is_masked, y == nullptr ? nullptr : y + block_begin,
                             &scale[c], &shift[c]};
  };
  sums.Clear();
  geometry.ForEachBlock([&](size_t n, size_t k) {
    const size_t block_begin = geometry.OffsetOf(n, k), c = k * kNormChannels;
    kernels::NormBackwardSums(x + block_begin, dy + block_begin, geometry.SlabOf(k),
                              mask_of(block_begin, c, false), &mean[c], sums.FirstSums(n, c),
                              sums.SecondSums(n, c), g == nullptr ? nullptr : g + block_begin);
  });
  for (size_t c = 0; c < geometry.channels; ++c) {
    if (!uses_batch_moments) {  // Mean and variance are constants.
      slope[c] = offset[c] = 0;
      continue;
    }
    const auto [sum, sum_of_products] = sums.Totals(c);
    gamma_gradient[c] = static_cast<float>(sum_of_products * inverse[c]);
    beta_gradient[c] = static_cast<float>(sum);
    slope[c] = static_cast<float>(-gamma[c] * inverse[c] * inverse[c] * inverse[c] *
                                  sum_of_products / ValuesPerChannel());
    offset[c] = static_cast<float>(-gamma[c] * inverse[c] * sum / ValuesPerChannel());
  }
  const bool is_masked = g != nullptr;  // Whether `g` now has dy with the ReLU's mask applied.
  geometry.ForEachBlock([&](size_t n, size_t k) {
    const size_t block_begin = geometry.OffsetOf(n, k), c = k * kNormChannels;
    kernels::NormBackwardApply(x + block_begin, (is_masked ? g : dy) + block_begin,
                               geometry.SlabOf(k), mask_of(block_begin, c, is_masked), &mean[c],
                               &scale[c], &slope[c], &offset[c], dx + block_begin);
  });
}

class BatchNorm : public Layer {
 public:
  explicit BatchNorm(const LayerSpec& spec)
      : spec_(spec), desc_(ActivationDesc(DimsOf(spec.batch, spec.output))) {
    const models::ImageDims& image = spec.output;
    norm_ = std::make_shared<Norm>(Geometry{spec.batch, image.c, size_t{image.h} * image.w,
                                            ActivationTag(image.c) == kBlocked});
    norm_->uses_batch_moments = spec.is_training && !spec.is_frozen;
    norm_->has_relu = spec.has_relu;
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
    if (AddsSecondInput()) values.push_back(program->Convert(inputs[1], desc_));
    program->Call(values, [norm = norm_](const std::vector<float*>& data) {
      norm->Forward(data[0], data.size() > 2 ? data[2] : nullptr, data[1]);
    });
    return output_;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    const Value output_gradient = program->Convert(gradient, desc_);
    if (!AddsSecondInput()) return {AddSimpleBackward(program, output_gradient)};
    if (!spec_.has_relu) {
      Value added_gradient = output_gradient;
      added_gradient.is_shared = true;
      return {AddSimpleBackward(program, added_gradient), added_gradient};
    }
    Value added_gradient = program->InPlaceOrNew(output_gradient);
    added_gradient.is_shared = wanted[1];
    const Value input_gradient = program->NewValue(desc_);
    program->Call({input_, output_, output_gradient, added_gradient, input_gradient},
                  [norm = norm_](const std::vector<float*>& data) {
                    norm->Backward(data[0], data[1], data[2], data[3], data[4]);
                  });
    return {input_gradient, added_gradient};
  }

 private:
  // Whether the layer also adds a second input.
  bool AddsSecondInput() const { return spec_.inputs.size() > 1; }

  // Appends a backward step that does not store the masked gradient of an added tensor; returns dx.
  Value AddSimpleBackward(Program* program, const Value& output_gradient) {
    const Value input_gradient = program->InPlaceOrNew(output_gradient);
    program->Call({input_, output_gradient, input_gradient},
                  [norm = norm_](const std::vector<float*>& data) {
                    norm->Backward(data[0], nullptr, data[1], nullptr, data[2]);
                  });
    return input_gradient;
  }

  const LayerSpec spec_;
  const memory::desc desc_;
  std::shared_ptr<Norm> norm_;  // Shared by the steps of the forward and the backward pass.
  Value input_, output_;
};

}  // namespace

std::unique_ptr<Layer> MakeBatchNorm(const LayerSpec& spec) {
  return std::make_unique<BatchNorm>(spec);
}

}  // namespace tern::engine
