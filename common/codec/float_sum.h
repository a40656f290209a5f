// Sums of codecs that add floats, always in rank order over whoever came, so that the order of
// arrival never shows; and rows of floats as bytes (IEEE single, little-endian).
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
// kMismatch with the first index that is NaN or infinite.
Status CheckFinite(std::span<const float> values, uint64_t first_index);

// Decode of a codec whose sum is the mean as floats.
Status DecodeFloatMean(std::string_view codec, std::span<const uint8_t> sum, uint64_t count,
                       uint64_t first, uint64_t n, float* mean);

// kMismatch unless `sum` has `expected` bytes; kInternal unless [first, first + n) lies in [0,
// count).
Status CheckSum(std::string_view codec, std::span<const uint8_t> sum, size_t expected,
                uint64_t count, uint64_t first, uint64_t n);

class RankOrderedSum : public Accumulator {
 public:
  RankOrderedSum(uint64_t count, int workers);

  // kInternal for a rank outside [0, workers) or one that was added before.
  Result<size_t> Add(int rank, std::span<const uint8_t> bytes) final;
  // The mean as floats; codecs that send something else override it.
  void EncodeSum(std::vector<uint8_t>* out) override;

 protected:
  // The size of this segment's part at the front of `bytes`, all of it checked.
  virtual Result<size_t> Check(std::span<const uint8_t> bytes) const = 0;
  // sum[0, count) += the checked part.
  virtual void AddTo(std::span<const uint8_t> part, float* sum) const = 0;

  uint64_t count() const { return sum_.size(); }
  // sum / contributors of elements [first, first + mean.size()). Nothing is added after it.
  void MeanOf(uint64_t first, std::span<float> mean);

 private:
  // Adds what is parked from next_ on, up to the first rank that has not come, or all of it.
  void AddParked(bool skip_missing);

  std::vector<float> sum_;
  // By rank: a copy of the part, until all lower ranks have come.
  std::vector<std::optional<std::vector<uint8_t>>> parked_;
  size_t next_ = 0;  // ranks from this one on are not yet in sum_
  int contributors_ = 0;
};

}  // namespace tern::codec
