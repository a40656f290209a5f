#include <algorithm>
#include <cmath>

#include "tests/worker/engine/reference_layer.h"

namespace tern::engine {
namespace {

// A tap is an element of the kernel at one position of the window. Calls visit(output y, output x,
// input y, input x, kernel y, kernel x) for all taps inside the image. Windows come row by row, and
// so do the taps of each window.
template <typename Def, typename Visit>
void ForEachTap(const Def& def, const Tensor& input, const Tensor& output, const Visit& visit) {
  const auto height = static_cast<uint32_t>(input.h), width = static_cast<uint32_t>(input.w);
  const models::Window rows = models::WindowOf(def, height), columns = models::WindowOf(def, width);
  const size_t pad_top = models::PlanAxis(height, rows)->pad_begin;
  const size_t pad_left = models::PlanAxis(width, columns)->pad_begin;
  for (size_t y = 0; y < output.h; ++y) {
    for (size_t x = 0; x < output.w; ++x) {
      for (size_t ky = 0; ky < rows.kernel; ++ky) {
        for (size_t kx = 0; kx < columns.kernel; ++kx) {
          // A negative result wraps to a huge number, which is outside the image, too.
          const size_t iy = y * rows.stride + ky * rows.dilation - pad_top;
          const size_t ix = x * columns.stride + kx * columns.dilation - pad_left;
          if (iy < input.h && ix < input.w) visit(y, x, iy, ix, ky, kx);
        }
      }
    }
  }
}

class Conv : public ReferenceLayer {
 public:
  Conv(const pb::LayerDef& def, ReferenceState* state) : ReferenceLayer(state), def_(def.conv()) {}

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    x_ = *inputs[0];
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t o = 0; o < y->c; ++o) {
        const double bias = def_.bias() ? state_.parameters[1][o] : 0;
        for (size_t i = 0; i < y->h * y->w; ++i) y->At(n, o, 0, i) = bias;
        ForEachTap(def_, x_, *y,
                   [&](size_t yy, size_t yx, size_t iy, size_t ix, size_t ky, size_t kx) {
                     for (size_t c = 0; c < ChannelsPerOutput(); ++c)
                       y->At(n, o, yy, yx) += state_.parameters[0][WeightIndexOf(o, c, ky, kx)] *
                                              x_.At(n, FirstChannelOf(o) + c, iy, ix);
                   });
      }
    }
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = x_.Zeros();
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t o = 0; o < dy.c; ++o) {
        for (size_t i = 0; def_.bias() && i < dy.h * dy.w; ++i)
          state_.gradients[1][o] += dy.At(n, o, 0, i);
        ForEachTap(def_, x_, dy,
                   [&](size_t yy, size_t yx, size_t iy, size_t ix, size_t ky, size_t kx) {
                     const double dy_element = dy.At(n, o, yy, yx);
                     for (size_t c = 0; c < ChannelsPerOutput(); ++c) {
                       const size_t weight_index = WeightIndexOf(o, c, ky, kx);
                       state_.gradients[0][weight_index] +=
                           dy_element * x_.At(n, FirstChannelOf(o) + c, iy, ix);
                       dx.At(n, FirstChannelOf(o) + c, iy, ix) +=
                           dy_element * state_.parameters[0][weight_index];
                     }
                   });
      }
    }
    return {dx};
  }

 private:
  // The number of input channels that an output channel reads.
  size_t ChannelsPerOutput() const { return x_.c / def_.groups(); }
  // The first input channel that output channel `o` reads.
  size_t FirstChannelOf(size_t o) const {
    return o / (def_.outputs() / def_.groups()) * ChannelsPerOutput();
  }
  size_t WeightIndexOf(size_t o, size_t c, size_t ky, size_t kx) const {
    return ((o * ChannelsPerOutput() + c) * def_.kernel() + ky) * def_.kernel() + kx;
  }

  const pb::ConvDef& def_;
  Tensor x_;
};

// Max pooling. The first of several equal maxima gets the gradient.
class MaxPool : public ReferenceLayer {
 public:
  MaxPool(const pb::LayerDef& def, ReferenceState* state)
      : ReferenceLayer(state), def_(def.max_pool()) {}

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    x_ = *inputs[0];
    y->values.assign(y->values.size(), -INFINITY);
    winner_of_output_.assign(y->values.size(), 0);
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t c = 0; c < x_.c; ++c) {
        ForEachTap(def_, x_, *y, [&](size_t yy, size_t yx, size_t iy, size_t ix, size_t, size_t) {
          double& largest = y->At(n, c, yy, yx);
          if (!(x_.At(n, c, iy, ix) > largest)) return;
          largest = x_.At(n, c, iy, ix);
          winner_of_output_[static_cast<size_t>(&largest - y->values.data())] =
              static_cast<size_t>(&x_.At(n, c, iy, ix) - x_.values.data());
        });
      }
    }
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = x_.Zeros();
    for (size_t i = 0; i < dy.values.size(); ++i) dx.values[winner_of_output_[i]] += dy.values[i];
    return {dx};
  }

 private:
  const pb::PoolDef& def_;
  Tensor x_;
  std::vector<size_t> winner_of_output_;
};

class AvgPool : public ReferenceLayer {
 public:
  AvgPool(const pb::LayerDef& def, ReferenceState* state)
      : ReferenceLayer(state), def_(def.avg_pool()) {}

  void Forward(const std::vector<const Tensor*>& inputs, Tensor* y) override {
    x_ = *inputs[0];
    Tensor tap_counts = y->Zeros();
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t c = 0; c < x_.c; ++c) {
        ForEachTap(def_, x_, *y, [&](size_t yy, size_t yx, size_t iy, size_t ix, size_t, size_t) {
          y->At(n, c, yy, yx) += x_.At(n, c, iy, ix);
          tap_counts.At(n, c, yy, yx) += 1;
        });
      }
    }
    if (def_.include_padding())
      tap_counts.values.assign(tap_counts.values.size(), double{1} * def_.kernel() * def_.kernel());
    tap_counts_ = tap_counts;
    for (size_t i = 0; i < y->values.size(); ++i) y->values[i] /= tap_counts.values[i];
  }

  std::vector<Tensor> Backward(const Tensor& dy) override {
    Tensor dx = x_.Zeros();
    for (size_t n = 0; n < x_.n; ++n) {
      for (size_t c = 0; c < x_.c; ++c) {
        ForEachTap(def_, x_, dy, [&](size_t yy, size_t yx, size_t iy, size_t ix, size_t, size_t) {
          dx.At(n, c, iy, ix) += dy.At(n, c, yy, yx) / tap_counts_.At(n, c, yy, yx);
        });
      }
    }
    return {dx};
  }

 private:
  const pb::PoolDef& def_;
  Tensor x_, tap_counts_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeReferenceWindow(const pb::LayerDef& def,
                                                    ReferenceState* state) {
  if (def.has_conv()) return std::make_unique<Conv>(def, state);
  if (def.has_max_pool()) return std::make_unique<MaxPool>(def, state);
  return std::make_unique<AvgPool>(def, state);
}

}  // namespace tern::engine
