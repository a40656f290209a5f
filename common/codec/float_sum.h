// Sums of codecs that add floats. They are always added in rank order, so that the result does not
// depend on the order of arrival. Also converts rows of floats to and from bytes (IEEE single,
// little-endian).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/codec/codec.h"

namespace tern::codec {

// Appends values as bytes.
void AppendFloats(std::span<const float> values, std::vector<uint8_t>* out);
// values[0, values.size()) from the front of `bytes`. REQUIRES bytes.size() >= 4 * values.size().
void ReadFloats(std::span<const uint8_t> bytes, std::span<float> values);
// kMismatch, with the first index, if a value is NaN or infinite.
Status CheckFinite(std::span<const float> values, uint64_t first_index);

// Codec::Decode for codecs whose sum is the mean as floats.
Status DecodeFloatMean(std::string_view codec, std::span<const uint8_t> sum, uint64_t count,
                       uint64_t first, uint64_t n, float* mean);

// kMismatch unless `sum` has `expected` bytes; kInternal unless [first, first + n) lies in [0,
// count).
Status CheckSum(std::string_view codec, std::span<const uint8_t> sum, size_t expected,
                uint64_t count, uint64_t first, uint64_t n);

class RankOrderedSum : public Accumulator {
 public:
  RankOrderedSum(uint64_t count, int workers);

  // kInternal for a rank outside [0, workers) or one that was already added.
  Result<size_t> Add(int rank, std::span<const uint8_t> bytes) final;
  // Writes the mean as floats; codecs with another format override it.
  void EncodeSum(std::vector<uint8_t>* out) override;

 protected:
  // Checks this segment's part at the front of `bytes` and returns its size.
  virtual Result<size_t> Check(std::span<const uint8_t> bytes) const = 0;
  // sum[0, count) += the checked part.
  virtual void AddTo(std::span<const uint8_t> part, float* sum) const = 0;

  uint64_t count() const { return sum_.size(); }
  // sum / contributors of elements [first, first + mean.size()). No Add after it.
  void MeanOf(uint64_t first, std::span<float> mean);

 private:
  // Adds the waiting parts from next_ on, up to the first missing rank; with skip_missing all of
  // them.
  void AddWaiting(bool skip_missing);

  std::vector<float> sum_;
  // By rank: a copy of the part, until all lower ranks have been added.
  std::vector<std::optional<std::vector<uint8_t>>> waiting_;
  size_t next_ = 0;  // ranks from this one on are not yet in sum_
  int contributors_ = 0;
};

}  // namespace tern::codec
