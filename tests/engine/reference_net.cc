#include "tests/engine/reference_net.h"

#include <cmath>

namespace tern::engine {
namespace {

// [N, C, H, W], row-major.
struct Tensor {
  Tensor() = default;
  Tensor(size_t batch, const models::ImageDims& dims)
      : n(batch), c(dims.c), h(dims.h), w(dims.w), values(n * c * h * w) {}
  double& At(size_t i, size_t channel, size_t y, size_t x) {
    return values[((i * c + channel) * h + y) * w + x];
  }
  size_t n = 0, c = 0, h = 0, w = 0;
  std::vector<double> values;
};

// Calls visit(y, x, input y, input x, kernel y, kernel x) for each window's elements that lie in
// the image, windows and their elements in row-major order.
template <typename Def, typename Visit>
void ForEachTap(const Def& def, const Tensor& input, const Tensor& output, const Visit& visit) {
  const auto rows =
      models::PlanAxis(static_cast<uint32_t>(input.h), def.kernel(), def.stride(), def.padding());
  const auto columns =
      models::PlanAxis(static_cast<uint32_t>(input.w), def.kernel(), def.stride(), def.padding());
  for (size_t y = 0; y < output.h; ++y) {
    for (size_t x = 0; x < output.w; ++x) {
      for (size_t ky = 0; ky < def.kernel(); ++ky) {
        for (size_t kx = 0; kx < def.kernel(); ++kx) {
          const size_t iy = y * def.stride() + ky - rows->pad_begin;  // wraps where it is negative
          const size_t ix = x * def.stride() + kx - columns->pad_begin;
          if (iy < input.h && ix < input.w) visit(y, x, iy, ix, ky, kx);
        }
      }
    }
  }
}

class Reference {
 public:
  Reference(const pb::NetDef& net, uint32_t batch, std::span<const float> parameters)
      : net_(net), shapes_(*models::InferShapes(net)), parameters_(parameters) {
    gradients_.resize(models::MakeParameterTable(net)->total);
    values_.emplace_back(batch, shapes_.at("data"));
  }

  ReferenceRun Run(std::span<const float> images, std::span<const uint32_t> labels, uint32_t used) {
    values_[0].values.assign(images.begin(), images.end());
    for (const pb::LayerDef& layer : net_.layers()) {
      offsets_.push_back(offset_);
      if (!layer.has_softmax_loss()) Forward(layer);
    }
    ReferenceRun run;
    run.scores = values_.back().values;
    Tensor gradient = Loss(labels, used, &run);
    for (int i = net_.layers_size() - 2; i >= 0; --i) {
      gradient = Backward(net_.layers(i), i, gradient);
    }
    run.gradients = gradients_;
    return run;
  }

 private:
  void Forward(const pb::LayerDef& layer) {
    Tensor input = values_.back();
    Tensor output(input.n, shapes_.at(layer.output()));
    if (layer.has_conv()) ForwardConv(layer.conv(), input, &output);
    if (layer.has_max_pool()) ForwardPool(layer.max_pool(), input, &output);
    if (layer.has_dense()) ForwardDense(input, &output);
    if (layer.has_relu()) {
      for (size_t i = 0; i < input.values.size(); ++i) {
        output.values[i] = input.values[i] > 0 ? input.values[i] : 0;
      }
    }
    values_.push_back(std::move(output));
  }

  Tensor Backward(const pb::LayerDef& layer, int index, Tensor& dy) {
    Tensor& x = values_[index];
    Tensor dx = x;
    dx.values.assign(dx.values.size(), 0);
    if (layer.has_conv()) BackwardConv(layer.conv(), offsets_[index], x, dy, &dx);
    if (layer.has_max_pool()) BackwardPool(layer.max_pool(), x, dy, &dx);
    if (layer.has_dense()) BackwardDense(offsets_[index], x, dy, &dx);
    if (layer.has_relu()) {
      for (size_t i = 0; i < x.values.size(); ++i)
        dx.values[i] = x.values[i] > 0 ? dy.values[i] : 0;
    }
    return dx;
  }

  static size_t WeightAt(const pb::ConvDef& def, size_t channels, size_t o, size_t c, size_t ky,
                         size_t kx) {
    return ((o * channels + c) * def.kernel() + ky) * def.kernel() + kx;
  }

  void ForwardConv(const pb::ConvDef& def, Tensor& x, Tensor* y) {
    const size_t biases = offset_ + y->c * x.c * def.kernel() * def.kernel();
    for (size_t n = 0; n < x.n; ++n) {
      for (size_t o = 0; o < y->c; ++o) {
        for (size_t i = 0; i < y->h * y->w; ++i) y->At(n, o, 0, i) = parameters_[biases + o];
        ForEachTap(def, x, *y,
                   [&](size_t yy, size_t yx, size_t iy, size_t ix, size_t ky, size_t kx) {
                     for (size_t c = 0; c < x.c; ++c) {
                       const size_t at = offset_ + WeightAt(def, x.c, o, c, ky, kx);
                       y->At(n, o, yy, yx) += parameters_[at] * x.At(n, c, iy, ix);
                     }
                   });
      }
    }
    offset_ = biases + y->c;
  }

  void BackwardConv(const pb::ConvDef& def, size_t offset, Tensor& x, Tensor& dy, Tensor* dx) {
    const size_t biases = offset + dy.c * x.c * def.kernel() * def.kernel();
    for (size_t n = 0; n < x.n; ++n) {
      for (size_t o = 0; o < dy.c; ++o) {
        for (size_t i = 0; i < dy.h * dy.w; ++i) gradients_[biases + o] += dy.At(n, o, 0, i);
        ForEachTap(def, x, dy,
                   [&](size_t yy, size_t yx, size_t iy, size_t ix, size_t ky, size_t kx) {
                     for (size_t c = 0; c < x.c; ++c) {
                       const size_t at = offset + WeightAt(def, x.c, o, c, ky, kx);
                       gradients_[at] += dy.At(n, o, yy, yx) * x.At(n, c, iy, ix);
                       dx->At(n, c, iy, ix) += dy.At(n, o, yy, yx) * parameters_[at];
                     }
                   });
      }
    }
  }

  static void ForwardPool(const pb::PoolDef& def, Tensor& x, Tensor* y) {
    y->values.assign(y->values.size(), -INFINITY);
    for (size_t n = 0; n < x.n; ++n) {
      for (size_t c = 0; c < x.c; ++c) {
        ForEachTap(def, x, *y, [&](size_t yy, size_t yx, size_t iy, size_t ix, size_t, size_t) {
          y->At(n, c, yy, yx) = std::max(y->At(n, c, yy, yx), x.At(n, c, iy, ix));
        });
      }
    }
  }

  // Of equal elements the first wins.
  static void BackwardPool(const pb::PoolDef& def, Tensor& x, Tensor& dy, Tensor* dx) {
    Tensor best = dy, winner = dy;
    best.values.assign(best.values.size(), -INFINITY);
    for (size_t n = 0; n < x.n; ++n) {
      for (size_t c = 0; c < x.c; ++c) {
        ForEachTap(def, x, dy, [&](size_t yy, size_t yx, size_t iy, size_t ix, size_t, size_t) {
          if (!(x.At(n, c, iy, ix) > best.At(n, c, yy, yx))) return;
          best.At(n, c, yy, yx) = x.At(n, c, iy, ix);
          winner.At(n, c, yy, yx) = static_cast<double>(iy * x.w + ix);
        });
        for (size_t i = 0; i < dy.h * dy.w; ++i) {
          dx->At(n, c, 0, static_cast<size_t>(winner.At(n, c, 0, i))) += dy.At(n, c, 0, i);
        }
      }
    }
  }

  void ForwardDense(Tensor& x, Tensor* y) {
    const size_t inputs = x.c * x.h * x.w;
    const size_t biases = offset_ + y->c * inputs;
    for (size_t n = 0; n < x.n; ++n) {
      for (size_t o = 0; o < y->c; ++o) {
        double sum = parameters_[biases + o];
        for (size_t i = 0; i < inputs; ++i) {
          sum += parameters_[offset_ + o * inputs + i] * x.values[n * inputs + i];
        }
        y->At(n, o, 0, 0) = sum;
      }
    }
    offset_ = biases + y->c;
  }

  void BackwardDense(size_t offset, Tensor& x, Tensor& dy, Tensor* dx) {
    const size_t inputs = x.c * x.h * x.w;
    for (size_t n = 0; n < x.n; ++n) {
      for (size_t o = 0; o < dy.c; ++o) {
        const double d = dy.At(n, o, 0, 0);
        gradients_[offset + dy.c * inputs + o] += d;
        for (size_t i = 0; i < inputs; ++i) {
          gradients_[offset + o * inputs + i] += d * x.values[n * inputs + i];
          dx->values[n * inputs + i] += d * parameters_[offset + o * inputs + i];
        }
      }
    }
  }

  Tensor Loss(std::span<const uint32_t> labels, uint32_t used, ReferenceRun* run) {
    const Tensor& x = values_.back();
    Tensor dx = x;
    dx.values.assign(dx.values.size(), 0);
    for (size_t n = 0; n < used; ++n) {
      const double* row = x.values.data() + n * x.c;
      double sum = 0;
      size_t best = 0;
      for (size_t c = 0; c < x.c; ++c) {
        sum += std::exp(row[c]);
        if (row[c] > row[best]) best = c;
      }
      run->loss += (std::log(sum) - row[labels[n]]) / used;
      run->correct += best == labels[n];
      for (size_t c = 0; c < x.c; ++c) {
        dx.values[n * x.c + c] = (std::exp(row[c]) / sum - (c == labels[n])) / used;
      }
    }
    return dx;
  }

  const pb::NetDef& net_;
  const std::map<std::string, models::ImageDims> shapes_;
  std::span<const float> parameters_;
  std::vector<double> gradients_;
  std::vector<Tensor> values_;   // the input of each layer
  std::vector<size_t> offsets_;  // of each layer's parameters
  size_t offset_ = 0;
};

}  // namespace

ReferenceRun RunReference(const pb::NetDef& net, uint32_t batch, std::span<const float> parameters,
                          std::span<const float> images, std::span<const uint32_t> labels,
                          uint32_t used) {
  return Reference(net, batch, parameters).Run(images, labels, used);
}

}  // namespace tern::engine
