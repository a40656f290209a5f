// The wire formats of ternary: the same codes, noise, scalers and sums in different bytes, so that
// decoded means are the same bit for bit. A wire has no state and may be used by any number of
// threads.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"
#include "common/codec/mask_signs.h"

namespace tern::codec {

class TernaryWire {
 public:
  virtual ~TernaryWire() = default;
  // The name of the codec that uses this wire format with shared scalers.
  virtual std::string_view name() const = 0;

  // Up: codes g[0, segment.count) and appends the code, at most MaxCodeSize(segment.count) bytes.
  virtual void Encode(const float* g, const Segment& segment, const Prepared& prepared,
                      const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const = 0;
  virtual size_t MaxCodeSize(uint64_t count) const = 0;
  // Checks everything: kMismatch if `bytes` does not begin with a code of `count` elements.
  virtual Result<ParsedCode> Parse(std::span<const uint8_t> bytes, uint64_t count,
                                   Scratch* scratch) const = 0;

  // Down: the sum of `contributors` codes, in SumBits(contributors) planes
  // (kernels/codes/planes.h). By default the bytes of the sum are the planes; sums_are_planes
  // then tells callers that AppendSum only copies them.
  virtual bool sums_are_planes() const { return true; }
  virtual void AppendSum(std::span<const uint8_t> planes, uint64_t count, int contributors,
                         std::vector<uint8_t>* out) const;
  virtual size_t MaxSumSize(uint64_t count, int contributors) const;
  virtual Result<size_t> SumSize(std::span<const uint8_t> bytes, uint64_t count,
                                 int contributors) const;
  // The same contract as Codec::Decode. REQUIRES a valid scaler.
  virtual Status Decode(std::span<const uint8_t> sum, uint64_t count, int contributors,
                        float scaler, uint64_t first, uint64_t n, float* mean) const;
  virtual Status DecodeTo(std::span<const uint8_t> sum, uint64_t count, int contributors,
                          float scaler, const Codec::BlockVisitor& use) const;
};

// The wire formats, each in a file of its own; makers.h defines their bytes.
const TernaryWire& MaskSignsWire();  // ternary.cc
const TernaryWire& TwoBitWire();
const TernaryWire& Trit5Wire();
const TernaryWire& AnsWire();

}  // namespace tern::codec
