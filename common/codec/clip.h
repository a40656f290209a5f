// Clip and scaler of one tensor on one worker (TernGrad eq. 9 and its variants, see Clip in
// codec.h).
#pragma once

#include "common/codec/codec.h"

namespace tern::codec {

// With m = max|g| and k = float(c * sigma), at most the largest float:
//   paper, grace  clip k         scaler min(m, k)
//   official      not clipped    scaler k (what is beyond the shared scaler always fires)
//   none          not clipped    scaler m
// Where k is 0 (one element, or all of them equal) there is no spread to clip by, and clipping at 0
// would delete the tensor's gradient for good: such a tensor is treated as by `none`. An all-zero
// gradient has scaler 0. REQUIRES stats.finite.
Prepared PrepareTernary(const kernels::Stats& stats, size_t n, const Options& options);

}  // namespace tern::codec
