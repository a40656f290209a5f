// What makes each codec, for the table in codecs.cc, which has checked the options. Internal to the
// codecs.
#pragma once

#include <memory>

#include "common/codec/codec.h"
#include "common/codec/ternary_wire.h"

namespace tern::codec {

// 4 bytes an element, IEEE single, little-endian, both ways. Sums in float in rank order, divided
// by N once.
std::unique_ptr<Codec> MakeFp32();

// 2 bytes an element, IEEE half, little-endian, both ways: rounded once on the way up, once on the
// way down; what is beyond the largest half becomes the largest half. Sums in float in rank order.
std::unique_ptr<Codec> MakeFp16();

// The same with bfloat16: the range of fp32, 8 bits of precision.
std::unique_ptr<Codec> MakeBf16();

// TernGrad (Wen et al. 2017) with the shared scaler, by its wire:
//   ternary        up, a mask plane and the signs of the non-zeros (kernels/ternary.h); down, the
//                  sum in SumBits(N) bit planes (kernels/planes.h), as in the next two
//   ternary_2bit   up, a mask plane and a plane with the signs at their places; a sign of what is
//                  zero counts for nothing, so that one pass over the planes is enough
//   ternary_trit5  up, five codes a byte in base 3, elements in order, the first of them lowest:
//                  0, +1, -1 as 0, 1, 2; zeros beyond the last
//   ternary_ans    up and down, a byte: 0, and then as ternary; 1, and then the codes + 1, or the
//                  sums + N, entropy-coded in blocks of 16384, or 4096 (ans_row.h): the smaller
std::unique_ptr<Codec> MakeTernary(const Options& options,
                                   const TernaryWire& wire = MaskSignsWire());

// The same codes, each worker by its own scaler: up, the scaler (IEEE single, little-endian) and
// then the wire's code; down, the mean as fp32's, for the sum of N scalers has no small set of
// levels.
std::unique_ptr<Codec> MakeTernaryPerWorker(const Options& options, const TernaryWire& wire);

// QSGD (Alistarh et al. 2017): norms, and a level drawn for every element (qsgd_form.h), both ways:
// the mean of decoded floats is coded anew, but for what a single worker sent. kBadJob for options
// outside their ranges.
Result<std::unique_ptr<Codec>> MakeQsgd(const Options& options);

// 1bitSGD (Seide et al. 2014): the means of the negatives and of the others of a column or a
// bucket, IEEE single, little-endian, then a sign bit an element, both ways; what is left out is
// kept for the next on the workers and, of the mean, on the server. kBadJob as above.
Result<std::unique_ptr<Codec>> MakeOneBit(const Options& options);

// Deep gradient compression (Lin et al. 2018; dgc_memory.h): about a ratio of each tensor, the
// largest, as singles; what the others come to is sent when it is large. Both ways the code of
// sparse.h, of floats; sums in float in rank order.
Result<std::unique_ptr<Codec>> MakeTopK(const Options& options);

// "threshold": +t, -t or nothing, what is left is added to the next gradient (Strom 2015); the
// bytes are ternary's both ways. With a ratio "threshold_ratio", gradient dropping (Aji and
// Heafield 2017): the bytes are topk's.
Result<std::unique_ptr<Codec>> MakeThreshold(const Options& options);

// Adaptive quantization (Dryden et al. 2016): a share of the positive and of the negative elements,
// each as the mean of those sent. Up, the code of sparse.h, of pairs; down, that of floats.
Result<std::unique_ptr<Codec>> MakeAdaptive(const Options& options);

// AdaComp (Chen et al. 2018): of each bin what is about its largest, as +s or -s. Bytes as
// adaptive.
Result<std::unique_ptr<Codec>> MakeAdaComp(const Options& options);

}  // namespace tern::codec
