// The functions that create the codecs, for the table in codecs.cc. Only files of common/codec
// include this header. "Up" is what a worker sends to the servers, "down" is what a server sends to
// the workers, and N is the number of workers whose codes are added.
#pragma once

#include <memory>

#include "common/codec/codec.h"
#include "common/codec/integer_wire.h"

namespace tern::codec {

// fp32: 4 bytes per element, IEEE single, little-endian, up and down. The server adds floats in
// rank order and divides the sum by N.
std::unique_ptr<Codec> MakeFp32();

// fp16: 2 bytes per element, IEEE half, little-endian, up and down. Workers round the gradient, and
// the server rounds the mean; values beyond the largest half become the largest half. The server
// adds floats in rank order.
std::unique_ptr<Codec> MakeFp16();

// bf16: like fp16, but in bfloat16, which has the range of fp32 and 8 bits of precision.
std::unique_ptr<Codec> MakeBf16();

// TernGrad (Wen et al. 2017) with one scaler for all workers. Each element gets a code of -1, 0 or
// +1. A plane is a row with one bit per element. Four codecs differ only in their bytes:
//
//   ternary        up    a mask plane (1: code is not 0), then one sign bit per non-zero code
//                        (kernels/codes/ternary.h)
//                  down  the sum of the codes in SumBits(N) bit planes (kernels/codes/planes.h)
//   ternary_2bit   up    a mask plane and a plane of signs, with the sign of element i at bit i, so
//                        that one pass over the planes is enough; sign bits of zeros are ignored
//                  down  the same bytes as ternary
//   ternary_trit5  up    five codes per byte in base 3, in the order of the elements. The first
//                        code is the lowest digit; 0, +1 and -1 have the digits 0, 1 and 2; missing
//                        codes of the last byte are 0
//                  down  the same bytes as ternary
//   ternary_ans    up    a byte that names one of two formats, then the code in the smaller one. 0:
//                        the bytes of ternary. 1: the codes + 1, entropy-coded in blocks of 16384
//                        (ans_row.h)
//                  down  a byte, then the sum. 0: the bytes of ternary. 1: the sums + N,
//                        entropy-coded in blocks of 4096; 2, in its place if N > 127: the sums,
//                        entropy-coded without their low bits (split_row.h)
//
// Partial sums, of N workers of a host, have the bytes of sums, but blocks of 16384.
std::unique_ptr<Codec> MakeIntegerCodec(const Options& options, const IntegerWire& wire);

// TernGrad with the byte format `wire` for codes, but with a scaler per worker. Up: the scaler
// (IEEE single, little-endian), then the code. Down: the mean as floats, in the format of fp32,
// because sums of codes with N different scalers have too many possible values for a short code.
std::unique_ptr<Codec> MakeTernaryPerWorker(const Options& options, const IntegerWire& wire);

// "qsgd_shared", QSGD with a norm that all workers share: codes of 2 to 8 bits, which the server
// adds as integers. Up: the codes in two's complement, one plane per bit (kernels/codes/levels.h).
// Down: the sum of the codes in SumBits(N s) bit planes, where s is the largest code. With 2 bits
// the codes and sums are those of ternary without a clip. Options::scaler_per_worker has no effect.
// kBadJob for options outside their ranges. `entropy_coded`: "qsgd_shared_ans", a byte that names
// one of three formats, then the bytes: 0: those of qsgd_shared. 1: the codes + s, or with 2 bits
// the sums + N s if that is at most 127, entropy-coded as in ternary_ans. 2: the codes, where that
// is smaller, or all other sums, entropy-coded without their low bits (split_row.h).
Result<std::unique_ptr<Codec>> MakeQsgdShared(const Options& options, bool entropy_coded);

// QSGD (Alistarh et al. 2017): norms, and a randomly rounded level per element (qsgd_form.h), up
// and down. The server decodes the codes and encodes their mean again; it sends the code of a
// single worker unchanged. With Options::Qsgd::exact_sums the codec is "qsgd_exact", whose server
// sends the mean in the bytes of fp32. kBadJob for options outside their ranges.
Result<std::unique_ptr<Codec>> MakeQsgd(const Options& options);

// 1bitSGD (Seide et al. 2014): for each column or bucket the mean of its negative elements and the
// mean of its other elements, IEEE single, little-endian, then a sign bit per element, up and down.
// Error feedback on the workers and on the server. kBadJob for options outside their ranges.
Result<std::unique_ptr<Codec>> MakeOneBit(const Options& options);

// "topk", deep gradient compression (Lin et al. 2018; dgc_memory.h): sends a given share of each
// tensor, the elements of the largest magnitude, as floats. The other elements accumulate on the
// worker until they are large enough. The bytes up and down are those of sparse.h with floats; the
// server adds floats in rank order. kBadJob for options outside their ranges.
Result<std::unique_ptr<Codec>> MakeTopK(const Options& options);

// "threshold" (Strom 2015): sends +t, -t or nothing for each element, for a fixed t, and adds what
// was not sent to the next gradient; the bytes up and down are those of ternary. If the options
// give a ratio, the codec is "threshold_ratio", gradient dropping (Aji and Heafield 2017), which
// sends this share of the elements in the bytes of topk. kBadJob for options outside their ranges.
Result<std::unique_ptr<Codec>> MakeThreshold(const Options& options);

// Adaptive quantization (Dryden et al. 2016): sends a given share of the elements of each sign,
// those of the largest magnitude, as their mean. The bytes up are those of sparse.h with a pair of
// values, the bytes down those of sparse.h with floats. kBadJob for options outside their ranges.
Result<std::unique_ptr<Codec>> MakeAdaptive(const Options& options);

// AdaComp (Chen et al. 2018): sends the elements of each bin (a range of a tensor) whose magnitude
// is near the largest of the bin, as +s or -s with one s per tensor. The bytes are those of
// adaptive. kBadJob for options outside their ranges.
Result<std::unique_ptr<Codec>> MakeAdaComp(const Options& options);

// Rotates the values that `inner` encodes, and rotates back what it decodes; the bytes are those of
// `inner`, whose name gets the suffix "_rotated". Every block of options.rotate elements is coded
// together. kBadJob for options outside their ranges. REQUIRES an inner codec without memory.
Result<std::unique_ptr<Codec>> WithRotation(const Options& options, std::unique_ptr<Codec> inner);

}  // namespace tern::codec
