#include "common/codec/ternary_wire.h"

#include <string>

#include "common/codec/float_sum.h"
#include "kernels/planes.h"
#include "kernels/ternary.h"

namespace tern::codec {

void TernaryWire::AppendSum(std::span<const uint8_t> planes, uint64_t, int,
                            std::vector<uint8_t>* out) const {
  out->insert(out->end(), planes.begin(), planes.end());
}

size_t TernaryWire::MaxSumSize(uint64_t count, int contributors) const {
  return kernels::SumBits(contributors) * kernels::PlaneBytes(count);
}

Result<size_t> TernaryWire::SumPart(std::span<const uint8_t> bytes, uint64_t count,
                                    int contributors) const {
  const size_t size = TernaryWire::MaxSumSize(count, contributors);
  if (bytes.size() >= size) return size;
  return Status(Code::kMismatch, "ternary sum of " + std::to_string(bytes.size()) +
                                     " bytes, expected planes of " + std::to_string(size) +
                                     " for " + std::to_string(count) + " elements");
}

Status TernaryWire::Decode(std::span<const uint8_t> sum, uint64_t count, int contributors,
                           float scaler, uint64_t first, uint64_t n, float* mean) const {
  TERN_RETURN_IF_ERROR(
      CheckSum(name(), sum, TernaryWire::MaxSumSize(count, contributors), count, first, n));
  const size_t plane = kernels::PlaneBytes(count);
  for (size_t at = 0; at < sum.size(); at += plane) {
    if (UnusedBitsAreZero(sum.subspan(at, plane), count)) continue;
    return Status(Code::kMismatch, "ternary sum of " + std::to_string(count) +
                                       " elements has a bit set beyond the last of them");
  }
  if (!kernels::DecodeMean(sum.data(), count, contributors, scaler, first, n, mean)) {
    return Status(Code::kMismatch, "ternary sum has an element beyond what " +
                                       std::to_string(contributors) + " workers can add up to");
  }
  return Ok();
}

}  // namespace tern::codec
