// The methods that the wire formats of integer codes share: by default, sums are sent as bit
// planes (plane p has bit p of the sum of each element; kernels/codes/planes.h).
#include "common/codec/integer_wire.h"

#include <algorithm>
#include <array>

#include "common/base/text.h"
#include "common/codec/float_sum.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/ternary.h"

namespace tern::codec {
namespace {

// Checks the size of the planes of a sum, that their unused bits are zero, and that elements
// [first, first + n) exist.
Status CheckPlanes(std::string_view name, std::span<const uint8_t> sum, uint64_t count, int max_sum,
                   uint64_t first, uint64_t n) {
  const size_t plane_bytes = kernels::PlaneBytes(count);
  TERN_RETURN_IF_ERROR(
      CheckSumAndRange(name, sum, kernels::SumBits(max_sum) * plane_bytes, count, first, n));
  for (size_t at = 0; at < sum.size(); at += plane_bytes) {
    if (UnusedBitsAreZero(sum.subspan(at, plane_bytes), count)) continue;
    return Status(Code::kMismatch,
                  Cat(name, " sum of ", count, " elements has a bit set beyond the last of them"));
  }
  return Ok();
}

}  // namespace

Status SumTooLargeError(std::string_view name, int contributors) {
  return Status(Code::kMismatch, Cat(name, " sum has an element beyond what ", contributors,
                                     " workers can add up to"));
}

void IntegerWire::AppendSum(std::span<const uint8_t> planes, uint64_t, int,
                            std::vector<uint8_t>* out) const {
  out->insert(out->end(), planes.begin(), planes.end());
}

size_t IntegerWire::MaxSumSize(uint64_t count, int contributors) const {
  return kernels::SumBits(MaxSum(contributors)) * kernels::PlaneBytes(count);
}

Result<size_t> IntegerWire::SumSize(std::span<const uint8_t> bytes, uint64_t count,
                                    int contributors) const {
  const size_t size = IntegerWire::MaxSumSize(count, contributors);
  if (bytes.size() >= size) return size;
  return Status(Code::kMismatch,
                Cat(name(), " sum of ", bytes.size(), " bytes, expected planes of ", size, " for ",
                    count, " elements"));
}

Result<ParsedCode> IntegerWire::ParsePartial(std::span<const uint8_t> bytes, uint64_t count,
                                             int contributors, Scratch* scratch) const {
  const Result<PlanesOfPartial> partial = DecodePartial(bytes, count, contributors, scratch);
  if (!partial.ok()) return partial.status();
  const std::span<const uint8_t> planes = partial->planes;
  // Decodes the sum, because that finds an element beyond the largest sum.
  TERN_RETURN_IF_ERROR(IntegerWire::DecodeInBlocks(planes, count, contributors, 0,
                                                   [](uint64_t, std::span<const float>) {}));
  const size_t low_bytes = planes.size() - kernels::PlaneBytes(count);
  return ParsedCode{planes.first(low_bytes), planes.subspan(low_bytes), partial->size};
}

Result<IntegerWire::PlanesOfPartial> IntegerWire::DecodePartial(std::span<const uint8_t> bytes,
                                                                uint64_t count, int contributors,
                                                                Scratch*) const {
  const Result<size_t> size = IntegerWire::SumSize(bytes, count, contributors);
  if (!size.ok()) return size.status();
  return PlanesOfPartial{bytes.first(*size), *size};
}

Status IntegerWire::Decode(std::span<const uint8_t> sum, uint64_t count, int contributors,
                           float scaler, uint64_t first, uint64_t n, float* mean) const {
  TERN_RETURN_IF_ERROR(CheckPlanes(name(), sum, count, MaxSum(contributors), first, n));
  const kernels::MeanTable table(MaxSum(contributors), scaler);
  return kernels::DecodeMean(sum.data(), count, table, first, n, mean)
             ? Ok()
             : SumTooLargeError(name(), contributors);
}

Status IntegerWire::DecodeInBlocks(std::span<const uint8_t> sum, uint64_t count, int contributors,
                                   float scaler, const Codec::BlockVisitor& use) const {
  TERN_RETURN_IF_ERROR(CheckPlanes(name(), sum, count, MaxSum(contributors), 0, count));
  const kernels::MeanTable table(MaxSum(contributors), scaler);
  // Small blocks, so that the processor runs `use` of one block while it loads the next block.
  alignas(64) std::array<float, 256> mean;
  for (uint64_t at = 0; at < count; at += mean.size()) {
    const uint64_t n = std::min<uint64_t>(mean.size(), count - at);
    if (!kernels::DecodeMean(sum.data(), count, table, at, n, mean.data()))
      return SumTooLargeError(name(), contributors);
    use(at, std::span(mean).first(n));
  }
  return Ok();
}

}  // namespace tern::codec
