#include "models/graph/normal.h"

#include <array>
#include <cmath>

namespace tern::models {
namespace {

// The coefficients of a polynomial, the constant first.
using Coefficients = std::array<double, 8>;

double Polynomial(const Coefficients& c, double x) {
  double y = c[7];
  for (int i = 6; i >= 0; --i) y = y * x + c[i];
  return y;
}

// The quantile of p with q = p - 0.5: if |q| <= 0.425, it is q times this numerator / denominator,
// both at 0.425^2 - q^2.
constexpr Coefficients kCentralNumerator = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                            1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                            4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                            3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr Coefficients kCentralDenominator = {1.0,
                                              4.2313330701600911252e+1,
                                              6.8718700749205790830e+2,
                                              5.3941960214247511077e+3,
                                              2.1213794301586595867e+4,
                                              3.9307895800092710610e+4,
                                              2.8729085735721942674e+4,
                                              5.2264952788528545610e+3};
// For other p, with r = sqrt(-log(min(p, 1 - p))): if r <= 5, the quantile is this numerator /
// denominator, both at r - 1.6, and is negated if p < 0.5.
constexpr Coefficients kTailNumerator = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                         5.76949722146069140550e0,  3.64784832476320460504e0,
                                         1.27045825245236838258e0,  2.41780725177450611770e-1,
                                         2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr Coefficients kTailDenominator = {1.0,
                                           2.05319162663775882187e0,
                                           1.67638483018380384940e0,
                                           6.89767334985100004550e-1,
                                           1.48103976427480074590e-1,
                                           1.51986665636164571966e-2,
                                           5.47593808499534494600e-4,
                                           1.05075007164441684324e-9};
// If r > 5: as for r <= 5, but both at r - 5.
constexpr Coefficients kFarTailNumerator = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                            1.78482653991729133580e0,  2.96560571828504891230e-1,
                                            2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                            2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr Coefficients kFarTailDenominator = {1.0,
                                              5.99832206555887937690e-1,
                                              1.36929880922735805310e-1,
                                              1.48753612908506148525e-2,
                                              7.86869131145613259100e-4,
                                              1.84631831751005468180e-5,
                                              1.42151175831644588870e-7,
                                              2.04426310338993978564e-15};

}  // namespace

double PortableLog(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // x = m 2^exponent exactly, with m in [0.5, 1).
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  // log m = 2 atanh(s) = 2 (s + s^3 / 3 + s^5 / 5 + ...), where s = (m - 1) / (m + 1) and |s| <
  // 0.172.
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double sum = 0;
  for (int k = 23; k >= 3; k -= 2) sum = (sum + 1.0 / k) * s2;
  return exponent * 0.69314718055994530942 + 2 * s * (1 + sum);
}

double NormalQuantile(double p) {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;  // 0.425^2 - q^2
    return q * Polynomial(kCentralNumerator, r) / Polynomial(kCentralDenominator, r);
  }
  const double r = std::sqrt(-PortableLog(q < 0 ? p : 1 - p));
  const double x =
      r <= 5 ? Polynomial(kTailNumerator, r - 1.6) / Polynomial(kTailDenominator, r - 1.6)
             : Polynomial(kFarTailNumerator, r - 5) / Polynomial(kFarTailDenominator, r - 5);
  return q < 0 ? -x : x;
}

}  // namespace tern::models
