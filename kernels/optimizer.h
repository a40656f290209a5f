// Update rules on raw arrays, float arithmetic in the order written, no contraction: bit-equal on
// every device. `decay` is the weight decay that a replica adds itself (0: none).
#pragma once

#include <cstddef>

namespace tern::kernels {

// g += decay * w, into `out` (may be `g`): decay that is coded with the gradient.
void AddDecay(const float* g, const float* w, size_t n, float decay, float* out);
// w -= lr * (g + decay * w)
void SgdUpdate(float* w, const float* g, size_t n, float lr, float decay);
// v = m v + (g + decay * w); w -= lr v   (PyTorch's and TensorFlow's form)
void MomentumUpdate(float* w, float* v, const float* g, size_t n, float lr, float m, float decay);
// average = decay * average + (1 - decay) * w, written average -= (1 - decay) * (average - w), as
// TensorFlow's
void EmaUpdate(float* average, const float* w, size_t n, float one_minus_decay);

}  // namespace tern::kernels
