// Update rules on raw arrays, float arithmetic in the order written, no contraction, IEEE division
// and roots: bit-equal on every device. `decay` is the weight decay that the update adds to the
// gradient (0: none). Arrays do not overlap unless stated.
#pragma once

#include <cstddef>

namespace tern::kernels {

// x *= factor
void Scale(float* x, size_t n, float factor);
// out = g + decay * w: weight decay that is added before a gradient is coded. `out` may be `g`.
void AddDecay(const float* g, const float* w, size_t n, float decay, float* out);
// w -= lr * (g + decay * w)
void SgdUpdate(float* w, const float* g, size_t n, float lr, float decay);
// PyTorch's and TensorFlow's form:
//   v  = m v + (g + decay * w)
//   w -= lr v
void MomentumUpdate(float* w, float* v, const float* g, size_t n, float lr, float m, float decay);
// PyTorch's form of Nesterov's momentum:
//   d  = g + decay * w
//   v  = m v + d
//   w -= lr (d + m v)
void NesterovUpdate(float* w, float* v, const float* g, size_t n, float lr, float m, float decay);
// LARS with momentum (equation 5 of the survey that docs/ALGORITHMS.md names):
//   v  = m v + local_rate (g + decay * w)
//   w -= lr v
void LarsUpdate(float* w, float* v, const float* g, size_t n, float lr, float local_rate, float m,
                float decay);

// The coefficients of one Adam step, computed in double and rounded here.
struct AdamStep {
  float rate;                    // lr / (1 - beta1^t)
  float root;                    // 1 / sqrt(1 - beta2^t)
  float beta1, one_minus_beta1;  // beta1, 1 - beta1
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

// average = decay * average + (1 - decay) * w, computed as TensorFlow does:
//   average -= (1 - decay) * (average - w)
void EmaUpdate(float* average, const float* w, size_t n, float one_minus_decay);

}  // namespace tern::kernels
