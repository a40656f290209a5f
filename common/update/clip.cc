#include "common/update/clip.h"

#include <cmath>

#include "kernels/codes/stats.h"
#include "kernels/update/optimizer.h"

namespace tern::update {

double Norm(const float* x, size_t n) { return std::sqrt(kernels::ComputeStats(x, n).sum_squares); }

double ClipScale(double norm, double clip) {
  return clip > 0 && norm > clip && std::isfinite(norm) ? clip / norm : 1;
}

double ClipByNorm(float* g, size_t n, double clip) {
  if (clip <= 0) return 1;
  const double scale = ClipScale(Norm(g, n), clip);
  if (scale != 1) kernels::Scale(g, n, static_cast<float>(scale));
  return scale;
}

}  // namespace tern::update
