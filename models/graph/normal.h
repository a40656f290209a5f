// Normal quantiles computed only by additions, multiplications, divisions and square roots, which
// IEEE rounds the same everywhere. libm's log, sin and cos may differ in the last bit between
// machines, and initial parameters must not.
#pragma once

namespace tern::models {

// x with P(N(0, 1) < x) = p, to about 1e-15 (Wichura 1988, algorithm AS 241). REQUIRES 0 < p < 1.
double NormalQuantile(double p);

// Natural logarithm to about 1e-16 relative. REQUIRES x a positive normal number.
double PortableLog(double x);

}  // namespace tern::models
