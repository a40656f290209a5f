// The constructors of the codecs, one codec per file, for the table in codecs.cc. They may rely on
// the table's checks of the options. Internal to the codecs.
#pragma once

#include <memory>

#include "common/codec/codec.h"
#include "common/codec/ternary_wire.h"

namespace tern::codec {

// 4 bytes per element, IEEE single, little-endian, both ways. Adds floats in rank order and divides
// by N once.
std::unique_ptr<Codec> MakeFp32();

// 2 bytes per element, IEEE half, little-endian, both ways: rounded once on the way up, once on the
// way down; values beyond the largest half saturate. Adds floats in rank order.
std::unique_ptr<Codec> MakeFp16();

// As fp16, but in bfloat16: the range of fp32, 8 bits of precision.
std::unique_ptr<Codec> MakeBf16();

// TernGrad (Wen et al. 2017) with the shared scaler. The names differ in the wire:
//
//   ternary        up    a mask plane and the signs of the non-zeros (kernels/codes/ternary.h)
//                  down  the sum in SumBits(N) bit planes (kernels/codes/planes.h)
//   ternary_2bit   up    a mask plane and a plane of signs at the places of their elements, so that
//                        one pass over the planes is enough; signs of zeros are ignored
//                  down  as ternary
//   ternary_trit5  up    five codes per byte in base 3, in element order, the first one lowest:
//                        0, +1, -1 as 0, 1, 2; padded with zeros
//                  down  as ternary
//   ternary_ans    up    a byte, then the smaller of two forms. Byte 0: as ternary. Byte 1: the
//                        codes + 1, entropy-coded in blocks of 16384 (ans_row.h)
//                  down  the same with the sums + N, in blocks of 4096
std::unique_ptr<Codec> MakeTernary(const Options& options,
                                   const TernaryWire& wire = MaskSignsWire());

// The codes of `wire`, but with a scaler per worker. Up: the scaler (IEEE single, little-endian),
// then the code. Down: the mean as floats, as fp32 sends it, because sums of codes with N different
// scalers take too many values for a short code.
std::unique_ptr<Codec> MakeTernaryPerWorker(const Options& options, const TernaryWire& wire);

// QSGD (Alistarh et al. 2017): norms, and a random level per element (qsgd_form.h), both ways. The
// server encodes the mean of the decoded floats again, except that it passes a single worker's code
// on. kBadJob for options outside their ranges.
Result<std::unique_ptr<Codec>> MakeQsgd(const Options& options);

// 1bitSGD (Seide et al. 2014): for each column or bucket the mean of its negative elements and that
// of its others, IEEE single, little-endian, then a sign bit per element, both ways. Workers keep
// the error of their codes, and the server the error of the mean's code. kBadJob as above.
Result<std::unique_ptr<Codec>> MakeOneBit(const Options& options);

// Deep gradient compression (Lin et al. 2018; dgc_memory.h): sends about a given ratio of each
// tensor, the largest elements, as floats; the others accumulate until they are large. The code is
// that of sparse.h with floats, both ways; the server adds floats in rank order.
Result<std::unique_ptr<Codec>> MakeTopK(const Options& options);

// "threshold" (Strom 2015): sends +t, -t or nothing, and adds the rest to the next gradient; the
// bytes are those of ternary, both ways. If a ratio is given, "threshold_ratio", gradient dropping
// (Aji and Heafield 2017): the bytes are those of topk.
Result<std::unique_ptr<Codec>> MakeThreshold(const Options& options);

// Adaptive quantization (Dryden et al. 2016): sends a share of the positive and of the negative
// elements, each as the mean of the sent ones. Up, the code of sparse.h with pairs; down, with
// floats.
Result<std::unique_ptr<Codec>> MakeAdaptive(const Options& options);

// AdaComp (Chen et al. 2018): sends the elements of each bin that are near its largest, as +s or
// -s. The bytes are those of adaptive.
Result<std::unique_ptr<Codec>> MakeAdaComp(const Options& options);

}  // namespace tern::codec
