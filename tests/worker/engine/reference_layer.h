// A layer computed by plain loops in double precision, straight from its definition in net.proto.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/codes/philox.h"
#include "models/graph/shapes.h"
#include "proto/net.pb.h"

namespace tern::engine {

// A tensor of shape [N, C, H, W] in row-major order.
struct Tensor {
  Tensor() = default;
  Tensor(size_t batch, const models::ImageDims& dims)
      : n(batch), c(dims.c), h(dims.h), w(dims.w), values(n * c * h * w) {}
  double& At(size_t i, size_t channel, size_t y, size_t x) {
    return values[((i * c + channel) * h + y) * w + x];
  }
  double At(size_t i, size_t channel, size_t y, size_t x) const {
    return values[((i * c + channel) * h + y) * w + x];
  }
  Tensor Zeros() const {
    Tensor zeros = *this;
    zeros.values.assign(values.size(), 0);
    return zeros;
  }
  size_t n = 0, c = 0, h = 0, w = 0;
  std::vector<double> values;
};

// What a layer's computation needs from its net.
struct ReferenceState {
  // The layer's parameters, and the gradient of each.
  std::vector<std::vector<double>> parameters, gradients;
  std::vector<std::vector<double>> statistics;  // batch norm's running mean and variance
  bool training = true;
  kernels::NoiseKey noise;  // determines the random numbers of dropout
};

class ReferenceLayer {
 public:
  explicit ReferenceLayer(ReferenceState* state) : state_(*state) {}
  virtual ~ReferenceLayer() = default;
  // REQUIRES that `inputs` stay valid until Backward, and that `output` already has its shape.
  virtual void Forward(const std::vector<const Tensor*>& inputs, Tensor* output) = 0;
  // Takes the gradient of the output, adds to the parameters' gradients in the state, and returns
  // the gradients of the inputs.
  virtual std::vector<Tensor> Backward(const Tensor& dy) = 0;

 protected:
  ReferenceState& state_;
};

std::unique_ptr<ReferenceLayer> MakeReferenceLayer(const pb::LayerDef& def, ReferenceState* state);
// MakeReferenceLayer uses this for layers with windows: convolution and pooling.
std::unique_ptr<ReferenceLayer> MakeReferenceWindow(const pb::LayerDef& def, ReferenceState* state);

}  // namespace tern::engine
