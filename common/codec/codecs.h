// The codecs, one a file, for the table in codec.cc, which has checked the options.
#pragma once

#include <memory>

#include "common/codec/codec.h"

namespace tern::codec {

// 4 bytes an element, IEEE single, little-endian, both ways. Sums in float in rank order, divided
// by N once.
std::unique_ptr<Codec> MakeFp32();

// 2 bytes an element, IEEE half, little-endian, both ways: rounded once on the way up, once on the
// way down; what is beyond the largest half becomes the largest half. Sums in float in rank order.
std::unique_ptr<Codec> MakeFp16();

// The same with bfloat16: the range of fp32, 8 bits of precision.
std::unique_ptr<Codec> MakeBf16();

// TernGrad (Wen et al. 2017) with the shared scaler: up, a mask plane and the signs of the
// non-zeros (kernels/ternary.h); down, the sum in SumBits(N) bit planes (kernels/planes.h).
std::unique_ptr<Codec> MakeTernary(const Options& options);

// The same codes, each worker by its own scaler: up, the scaler (IEEE single, little-endian), mask
// and signs; down, the mean as fp32's, for the sum of N scalers has no small set of levels.
std::unique_ptr<Codec> MakeTernaryPerWorker(const Options& options);

}  // namespace tern::codec
