// Clip and scaler of one tensor on one worker (TernGrad eq. 9 and its variants; docs/ALGORITHMS.md,
// section 3).
#pragma once

#include "common/codec/codec.h"

namespace tern::codec {

// With m = max|g| and k = min(float(c * sigma), the largest float):
//
//   clip          clip level   scaler
//   paper, grace  k            min(m, k)
//   official      none         k            values beyond the shared scaler always fire
//   none          none         m
//
// If k is 0 (one element, or all of them equal), every variant acts like `none`: clipping at 0
// would delete the tensor's gradient for good. An all-zero gradient has scaler 0. REQUIRES
// stats.finite.
Prepared PrepareTernary(const kernels::Stats& stats, size_t n, const Options& options);

}  // namespace tern::codec
