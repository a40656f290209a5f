// Optimizers' update rules on arrays of n elements: weights w, gradients g, and the state of the
// rule. All arithmetic is in float, in the order written, without fused multiply-add, and with IEEE
// division and roots, so that every device gives the same bits. `decay` is the weight decay that
// the update adds to the gradient (0: none). Arrays must not overlap unless stated.
#pragma once

#include <cstddef>

namespace tern::kernels {

// x *= factor
void Scale(float* x, size_t n, float factor);
// out = g + decay * w: for weight decay that is added before a gradient is encoded. `out` may be
// `g`.
void AddDecay(const float* g, const float* w, size_t n, float decay, float* out);
// w -= lr * (g + decay * w)
void SgdUpdate(float* w, const float* g, size_t n, float lr, float decay);
// Momentum with the factor m, as in PyTorch and TensorFlow:
//   v  = m v + (g + decay * w)
//   w -= lr v
void MomentumUpdate(float* w, float* v, const float* g, size_t n, float lr, float m, float decay);
// Nesterov's momentum, as in PyTorch:
//   d  = g + decay * w
//   v  = m v + d
//   w -= lr (d + m v)
void NesterovUpdate(float* w, float* v, const float* g, size_t n, float lr, float m, float decay);
// LARS with momentum; local_rate is the local learning rate of the tensor:
//   v  = m v + local_rate (g + decay * w)
//   w -= lr v
void LarsUpdate(float* w, float* v, const float* g, size_t n, float lr, float local_rate, float m,
                float decay);

// The coefficients of Adam in step t, computed in double and then rounded to float.
struct AdamStep {
  float rate;  // lr / (1 - beta1^t)
  float root;  // 1 / sqrt(1 - beta2^t)
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float epsilon;
};
// One step of Adam:
//   d  = g + decay * w
//   m  = beta1 m + one_minus_beta1 d
//   v  = beta2 v + one_minus_beta2 (d d)
//   w -= rate (m / (sqrt(v) root + epsilon))
void AdamUpdate(float* w, float* m, float* v, const float* g, size_t n, const AdamStep& step,
                float decay);

// The coefficients of RMSProp.
struct RmspropStep {
  float lr, momentum;
  float rho, one_minus_rho;
  float epsilon;
};
// One step of RMSProp (Tieleman and Hinton 2012) in the form of TensorFlow's RMSPropOptimizer:
// epsilon is inside the root, and the momentum v has the learning rate in it.
//   d  = g + decay * w
//   s  = rho s + one_minus_rho (d d)
//   v  = m v + lr (d / sqrt(s + epsilon))
//   w -= v
void RmspropUpdate(float* w, float* v, float* s, const float* g, size_t n, const RmspropStep& step,
                   float decay);

// average = decay * average + (1 - decay) * w, computed as TensorFlow does:
//   average -= (1 - decay) * (average - w)
void EmaUpdate(float* average, const float* w, size_t n, float one_minus_decay);

}  // namespace tern::kernels
