#include "worker/tensorboard/code_figures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace tern::tensorboard {
namespace {

// The sum of term(i) for all indices i below n.
template <typename Term>
double SumOf(size_t n, const Term& term) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += term(i);
  return sum;
}

double SquaredNorm(std::span<const float> v) {
  return SumOf(v.size(), [&](size_t i) { return double{v[i]} * v[i]; });
}

double SquaredDistance(std::span<const float> a, std::span<const float> b) {
  return SumOf(a.size(), [&](size_t i) { return (double{a[i]} - b[i]) * (double{a[i]} - b[i]); });
}

double Share(double count, std::span<const float> values) {
  return count / static_cast<double>(values.size());
}

}  // namespace

CodeFigures CodeFiguresOf(std::span<const float> values, std::span<const float> decoded) {
  const double norm2 = SquaredNorm(values), decoded_norm2 = SquaredNorm(decoded);
  const double product =
      SumOf(values.size(), [&](size_t i) { return double{values[i]} * decoded[i]; });
  const double cosine =
      decoded_norm2 == 0 ? 0 : std::clamp(product / std::sqrt(norm2 * decoded_norm2), -1.0, 1.0);
  return {.zero_share =
              Share(static_cast<double>(std::count(decoded.begin(), decoded.end(), 0.f)), values),
          .q = SquaredDistance(decoded, values) / norm2,
          .angle_degrees = std::acos(cosine) * 180 / std::numbers::pi};
}

ClipFigures ClipFiguresOf(std::span<const float> values, std::span<const float> clamped) {
  const double num_clamped =
      SumOf(values.size(), [&](size_t i) { return values[i] == clamped[i] ? 0 : 1; });
  return {.share = Share(num_clamped, values),
          .bias = SquaredDistance(clamped, values) / SquaredNorm(values)};
}

}  // namespace tern::tensorboard
