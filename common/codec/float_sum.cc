// Sums of floats in rank order. The code of a rank that arrives early waits until the codes of all
// lower ranks have been added.
#include "common/codec/float_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

namespace tern::codec {

static_assert(std::endian::native == std::endian::little,
              "floats are copied to and from the wire in native byte order");

void AppendFloats(std::span<const float> values, std::vector<uint8_t>* out) {
  if (values.empty()) return;
  const size_t begin = out->size();
  out->resize(begin + values.size_bytes());
  std::memcpy(out->data() + begin, values.data(), values.size_bytes());
}

void ReadFloats(std::span<const uint8_t> bytes, std::span<float> values) {
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size_bytes());
}

Status CheckFinite(std::span<const float> values, uint64_t first_index) {
  constexpr uint32_t kExponentBits = 0x7F800000;
  uint32_t has_non_finite = 0;  // as wide as the values, which compilers vectorize best
  for (float v : values)
    has_non_finite |= uint32_t{(std::bit_cast<uint32_t>(v) & kExponentBits) == kExponentBits};
  if (has_non_finite == 0) return Ok();
  const auto bad_value =
      std::find_if_not(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
  return Status(Code::kMismatch,
                "element " + std::to_string(first_index + (bad_value - values.begin())) + " is " +
                    std::to_string(*bad_value) + ", expected a finite number");
}

Status CheckSumIsFinite(std::string_view codec, std::span<const float> values,
                        uint64_t first_index) {
  const Status status = CheckFinite(values, first_index);
  return status.ok()
             ? Ok()
             : Status(Code::kDiverged, status.message()).Within(std::string(codec) + " sum");
}

Status CheckSumAndRange(std::string_view codec, std::span<const uint8_t> sum, size_t expected_size,
                        uint64_t count, uint64_t first, uint64_t n) {
  if (first > count || n > count - first) {
    return Status(Code::kInternal, std::to_string(n) + " elements from " + std::to_string(first) +
                                       " on requested, but the segment has " +
                                       std::to_string(count));
  }
  if (sum.size() == expected_size) return Ok();
  return Status(Code::kMismatch, std::string(codec) + " sum of " + std::to_string(sum.size()) +
                                     " bytes, expected " + std::to_string(expected_size) + " for " +
                                     std::to_string(count) + " elements");
}

Status DecodeFloatMean(std::string_view codec, std::span<const uint8_t> sum, uint64_t count,
                       uint64_t first, uint64_t n, float* mean) {
  TERN_RETURN_IF_ERROR(CheckSumAndRange(codec, sum, 4 * count, count, first, n));
  const std::span<float> values(mean, n);
  ReadFloats(sum.subspan(4 * first), values);
  return CheckSumIsFinite(codec, values, first);
}

RankOrderedSum::RankOrderedSum(uint64_t count, int workers)
    : sum_(count), waiting_codes_(workers) {}

Result<size_t> RankOrderedSum::Add(int rank, std::span<const uint8_t> bytes) {
  return AddPartial(std::span(&rank, 1), bytes);
}

Result<size_t> RankOrderedSum::AddPartial(std::span<const int> ranks,
                                          std::span<const uint8_t> bytes) {
  for (const int rank : ranks) {
    const auto index = static_cast<size_t>(rank);
    if (rank >= 0 && index < waiting_codes_.size() && !IsAdded(index)) continue;
    return Status(Code::kInternal, "rank " + std::to_string(rank) + " added to a sum of " +
                                       std::to_string(waiting_codes_.size()) +
                                       " workers, expected each rank below that number once");
  }
  Result<size_t> code_size = Check(bytes);
  if (!code_size.ok()) return code_size;
  const std::span<const uint8_t> code = bytes.first(*code_size);
  contributors_ += static_cast<int>(ranks.size());
  const auto lowest = static_cast<size_t>(ranks.front());
  for (const int rank : ranks.subspan(1)) waiting_codes_[static_cast<size_t>(rank)].emplace();
  if (lowest != next_rank_) {
    waiting_codes_[lowest].emplace(code.begin(), code.end());
    return code_size;
  }
  AddTo(code, sum_.data());
  ++next_rank_;
  AddWaitingCodes(false);
  return code_size;
}

void RankOrderedSum::AddWaitingCodes(bool skip_missing) {
  for (; next_rank_ < waiting_codes_.size() &&
         (skip_missing || waiting_codes_[next_rank_].has_value());
       ++next_rank_) {
    if (!waiting_codes_[next_rank_].has_value()) continue;
    if (!waiting_codes_[next_rank_]->empty()) AddTo(*waiting_codes_[next_rank_], sum_.data());
    waiting_codes_[next_rank_].reset();
  }
}

void RankOrderedSum::ComputeMeanOfRange(uint64_t first, std::span<float> mean) {
  AddWaitingCodes(true);
  const auto contributors = static_cast<float>(contributors_);
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = sum_[first + i] / contributors;
}

void RankOrderedSum::EncodePartial(std::vector<uint8_t>* out) {
  AddWaitingCodes(true);
  AppendFloats(sum_, out);
}

void RankOrderedSum::EncodeSum(std::vector<uint8_t>* out) {
  std::array<float, 1024> block;
  for (uint64_t first = 0; first < count(); first += block.size()) {
    const std::span<float> mean =
        std::span(block).first(std::min<uint64_t>(block.size(), count() - first));
    ComputeMeanOfRange(first, mean);
    AppendFloats(mean, out);
  }
}

}  // namespace tern::codec
