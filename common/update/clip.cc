#include "common/update/clip.h"

#include <cmath>

#include "kernels/codes/stats.h"
#include "kernels/update/optimizer.h"

namespace tern::update {

double Norm(const float* x, size_t n) { return std::sqrt(kernels::ComputeStats(x, n).sum_squares); }

double ClipScale(double norm, double clip_norm) {
  return clip_norm > 0 && norm > clip_norm && std::isfinite(norm) ? clip_norm / norm : 1;
}

double ClipByNorm(float* g, size_t n, double clip_norm) {
  if (clip_norm <= 0) return 1;
  const double scale = ClipScale(Norm(g, n), clip_norm);
  if (scale != 1) kernels::Scale(g, n, static_cast<float>(scale));
  return scale;
}

}  // namespace tern::update
