// The byte formats of the codecs whose codes are integers with one scaler for all workers, so that
// sums of codes are integers: a code of b bits lies in [-s, s], with s = 2^(b - 1) - 1, and s
// stands for the scaler. The ternary codecs (TernGrad, Wen et al. 2017) are the case b = 2; they
// differ only in their bytes: codes (-1, 0, +1), random numbers, scalers and sums are the same, so
// that decoded means are the same bit for bit. An IntegerWire has no state and may be used by any
// number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"
#include "common/codec/mask_signs.h"

namespace tern::codec {

class IntegerWire {
 public:
  virtual ~IntegerWire() = default;
  // The name of the codec that uses this wire format with shared scalers.
  virtual std::string_view name() const = 0;
  // The bits of a code, b.
  virtual int code_bits() const { return 2; }
  // The largest sum of the codes of `contributors` workers, and with one of them the largest code.
  int MaxSum(int contributors) const { return contributors * ((1 << (code_bits() - 1)) - 1); }

  // The bytes from workers to servers. Encode encodes g[0, segment.count) and appends the code, at
  // most MaxCodeSize(segment.count) bytes.
  virtual void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
                      const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const = 0;
  virtual size_t MaxCodeSize(uint64_t count) const = 0;
  // Parses the code of `count` elements at the front of `bytes`. kMismatch if the code is invalid.
  // The result refers to `bytes` and `scratch`.
  virtual Result<ParsedCode> Parse(std::span<const uint8_t> bytes, uint64_t count,
                                   Scratch* scratch) const = 0;

  // The bytes from servers to workers: the sum of the codes of `contributors` workers. AppendSum
  // gets the sum in SumBits(MaxSum(contributors)) bit planes (kernels/codes/planes.h). By default
  // the planes are also the bytes that are sent; sums_are_planes() says so, and callers need not
  // call AppendSum.
  virtual bool sums_are_planes() const { return true; }
  virtual void AppendSum(std::span<const uint8_t> planes, uint64_t count, int contributors,
                         std::vector<uint8_t>* out) const;
  virtual size_t MaxSumSize(uint64_t count, int contributors) const;
  virtual Result<size_t> SumSize(std::span<const uint8_t> bytes, uint64_t count,
                                 int contributors) const;
  // The bytes from hosts to servers: the partial sum of the codes of `contributors` workers. By
  // default they are those of a sum. ParsePartial parses them at the front of `bytes` as Parse
  // parses a code. kMismatch if they are invalid, or an element is beyond what `contributors`
  // workers can add up to.
  virtual void AppendPartial(std::span<const uint8_t> planes, uint64_t count, int contributors,
                             std::vector<uint8_t>* out) const {
    AppendSum(planes, count, contributors, out);
  }
  Result<ParsedCode> ParsePartial(std::span<const uint8_t> bytes, uint64_t count, int contributors,
                                  Scratch* scratch) const;
  // Decode and DecodeInBlocks do what the methods of Codec with these names do. REQUIRES a scaler
  // that is finite and not negative.
  virtual Status Decode(std::span<const uint8_t> sum, uint64_t count, int contributors,
                        float scaler, uint64_t first, uint64_t n, float* mean) const;
  virtual Status DecodeInBlocks(std::span<const uint8_t> sum, uint64_t count, int contributors,
                                float scaler, const Codec::BlockVisitor& use) const;

 protected:
  // The bit planes of a partial sum at the front of `bytes`, which they refer to, or to `scratch`,
  // and its size in bytes.
  struct PlanesOfPartial {
    std::span<const uint8_t> planes;
    size_t size = 0;
  };
  virtual Result<PlanesOfPartial> DecodePartial(std::span<const uint8_t> bytes, uint64_t count,
                                                int contributors, Scratch* scratch) const;
};

// kMismatch: a sum has an element that `contributors` workers cannot add up to.
Status SumTooLargeError(std::string_view name, int contributors);

// The wire formats of ternary, ternary_2bit, ternary_trit5 and ternary_ans. makers.h defines their
// bytes.
const IntegerWire& MaskSignsWire();
const IntegerWire& TwoBitWire();
const IntegerWire& Trit5Wire();
const IntegerWire& AnsWire();

}  // namespace tern::codec
