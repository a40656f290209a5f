// Clipping by norm: scales a gradient down to the job's clip_norm if its 2-norm is larger.
#pragma once

#include <cstddef>

namespace tern::update {

// The 2-norm of x[0, n). Squares are added in a fixed order (kernels/codes/stats.h), so every
// device gets the same bits.
double Norm(const float* x, size_t n);
// The factor for a gradient with this norm: clip_norm / norm if norm > clip_norm, else 1. A
// clip_norm of 0 disables clipping. A non-finite norm gives 1; the caller's check of the gradient
// reports it.
double ClipScale(double norm, double clip_norm);
// Multiplies g[0, n) by ClipScale of its norm, and returns that factor.
double ClipByNorm(float* g, size_t n, double clip_norm);

}  // namespace tern::update
