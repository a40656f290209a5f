// The default implementations of Codec's virtual methods, and the methods that all codecs share.
#include "common/codec/codec.h"

#include <algorithm>
#include <array>

namespace tern::codec {

namespace {

// A sum with values that are not finite has overflowed; a single code with such values is invalid.
Status AsStatusOfCode(const Status& sum_status) {
  return sum_status.code() == Code::kDiverged ? Status(Code::kMismatch, sum_status.message())
                                              : sum_status;
}

}  // namespace

void Memory::UpdateSparse(uint64_t begin, std::span<const float> v,
                          std::span<const uint32_t> positions) {
  std::vector<float> sent(v.size());
  for (const uint32_t i : positions) sent[i] = v[i];
  Update(begin, v, sent);
}

Status Codec::UpdateMemory(std::span<const uint8_t> code, const Segment& segment,
                           std::span<const float> v, Memory* memory) const {
  const auto update = [&](uint64_t first, std::span<const float> sent) {
    memory->Update(segment.begin + first, v.subspan(first, sent.size()), sent);
  };
  return DecodeSingleCodeInBlocks(code, segment, update).status();
}

Result<size_t> Codec::DecodeSingleCode(std::span<const uint8_t> code, const Segment& segment,
                                       float* values) const {
  size_t code_size = 0;
  std::vector<uint8_t> coded_sum;
  if (!SingleCodeIsSum()) {
    const std::unique_ptr<Accumulator> accumulator = NewAccumulator(segment, 1);
    Result<size_t> added_size = accumulator->Add(0, code);
    if (!added_size.ok()) return added_size;
    code_size = *added_size;
    accumulator->EncodeSum(&coded_sum);
  } else {
    Result<size_t> sum_size = SumSize(code, segment, 1);
    if (!sum_size.ok()) return sum_size;
    code_size = *sum_size;
  }
  const std::span<const uint8_t> coded_sum_bytes =
      SingleCodeIsSum() ? code.first(code_size) : std::span<const uint8_t>(coded_sum);
  TERN_RETURN_IF_ERROR(
      AsStatusOfCode(Decode(coded_sum_bytes, segment, 1, 0, 0, segment.count, values)));
  return code_size;
}

Result<size_t> Codec::DecodeSingleCodeInBlocks(std::span<const uint8_t> code,
                                               const Segment& segment,
                                               const BlockVisitor& use) const {
  if (SingleCodeIsSum()) {
    Result<size_t> code_size = SumSize(code, segment, 1);
    if (code_size.ok())
      TERN_RETURN_IF_ERROR(
          AsStatusOfCode(DecodeInBlocks(code.first(*code_size), segment, 1, 0, use)));
    return code_size;
  }
  std::vector<float> values(segment.count);
  Result<size_t> code_size = DecodeSingleCode(code, segment, values.data());
  if (code_size.ok()) use(0, values);
  return code_size;
}

Status Codec::DecodeInBlocks(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                             float scaler, const BlockVisitor& use) const {
  std::array<float, 16384> mean;  // a multiple of the blocks in which ternary_ans codes sums
  for (uint64_t first = 0; first < segment.count; first += mean.size()) {
    const uint64_t n = std::min<uint64_t>(mean.size(), segment.count - first);
    TERN_RETURN_IF_ERROR(Decode(sum, segment, contributors, scaler, first, n, mean.data()));
    use(first, std::span(mean).first(n));
  }
  return Ok();
}

Result<size_t> Accumulator::AddPartial(std::span<const int>, std::span<const uint8_t>) {
  return Status(Code::kInternal, "a partial sum was added with a codec that has none");
}

Result<size_t> Codec::SumSize(std::span<const uint8_t> bytes, const Segment& segment,
                              int contributors) const {
  const size_t size = MaxSumSize(segment, contributors);
  if (bytes.size() >= size) return size;
  return Status(Code::kMismatch, std::string(name()) + " sum of " + std::to_string(bytes.size()) +
                                     " bytes, expected " + std::to_string(size) + " for " +
                                     std::to_string(segment.count) + " elements");
}

}  // namespace tern::codec
