// Clipping by norm: a gradient whose 2-norm is larger than the job's clip_norm is scaled down to
// it.
#pragma once

#include <cstddef>

namespace tern::update {

// The 2-norm, added up in the fixed order of kernels/stats.h: the same bits on every device.
double Norm(const float* x, size_t n);
// What to multiply a gradient of this norm by: clip / norm where norm > clip, else 1. A clip of 0
// clips nothing; a norm that is not finite is left to whoever reports the gradient.
double ClipScale(double norm, double clip);
// Both: scales g[0, n) and returns by how much.
double ClipByNorm(float* g, size_t n, double clip);

}  // namespace tern::update
