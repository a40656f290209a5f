// Clip level and scaler of one tensor on one worker: TernGrad (Wen et al. 2017), equation 9, and
// its variants (docs/ALGORITHMS.md, section 3). The scaler is the magnitude that a ternary code of
// +1 or -1 stands for.
#pragma once

#include "common/codec/codec.h"

namespace tern::codec {

// Computes the clip level and the scaler of a tensor g from its statistics. With
// m = max|g|, c = options.clip_sigma, sigma the standard deviation of g, and
// k = min(float(c * sigma), the largest float):
//
//   options.clip      clip level   scaler
//   kPaper, kGrace    k            min(m, k)
//   kOfficial         none         k            values beyond the scaler always get code +1 or -1
//   kNone             none         m
//
// If k is 0 (one element, or all elements equal), every variant acts like kNone, because clipping
// at 0 would always delete the tensor's gradient. An all-zero gradient has scaler 0. REQUIRES
// stats.is_finite.
EncodeParams PrepareScaler(const kernels::Stats& stats, const Options& options);

}  // namespace tern::codec
