// Normal quantiles that are the same bits on all machines, because the initial parameters must be.
// They need only arithmetic and square roots, which IEEE rounds the same everywhere; libm's log,
// sin and cos may differ in the last bit between machines.
#pragma once

namespace tern::models {

// Returns the x for which P(N(0, 1) < x) = p, with an error of about 1e-15 (Wichura 1988, algorithm
// AS 241). REQUIRES 0 < p < 1.
double NormalQuantile(double p);

// Returns the natural logarithm of x with a relative error of about 1e-16. REQUIRES that x is
// positive and not denormal.
double PortableLog(double x);

}  // namespace tern::models
