// Accumulators for codecs whose decoded codes are added as floats. The codes are always added in
// rank order, so that the result does not depend on the order of arrival. Also converts rows of
// floats to and from bytes (IEEE single, little-endian).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/codec/codec.h"

namespace tern::codec {

// Appends the bytes of `values`.
void AppendFloats(std::span<const float> values, std::vector<uint8_t>* out);
// Reads all of `values` from the front of `bytes`. REQUIRES bytes.size() >= 4 * values.size().
void ReadFloats(std::span<const uint8_t> bytes, std::span<float> values);
// kMismatch if a value is NaN or infinite; the message names the first such value. The message
// calls values[0] element `first_index`.
Status CheckFinite(std::span<const float> values, uint64_t first_index);

// CheckFinite for the values of a sum, which servers make from finite ones: kDiverged.
Status CheckSumIsFinite(std::string_view codec, std::span<const float> values,
                        uint64_t first_index);

// Implements Codec::Decode for codecs whose coded sum is the mean, `count` floats. Sets mean[0, n)
// to elements [first, first + n) of that mean. `codec` is the name of the codec, for messages.
Status DecodeFloatMean(std::string_view codec, std::span<const uint8_t> sum, uint64_t count,
                       uint64_t first, uint64_t n, float* mean);

// Returns kMismatch unless `sum` has `expected_size` bytes, and kInternal unless [first, first + n)
// lies in [0, count).
Status CheckSumAndRange(std::string_view codec, std::span<const uint8_t> sum, size_t expected_size,
                        uint64_t count, uint64_t first, uint64_t n);

// Adds the codes of a segment (a range of a tensor) as floats, in rank order. Derived classes
// decode the codes.
class RankOrderedSum : public Accumulator {
 public:
  RankOrderedSum(uint64_t count, int workers);

  // kInternal for a rank outside [0, workers) or one that was already added.
  Result<size_t> Add(int rank, std::span<const uint8_t> bytes) final;
  // Takes a partial sum for a code of its lowest rank. Only for codecs whose codes are floats. The
  // errors of Add.
  Result<size_t> AddPartial(std::span<const int> ranks, std::span<const uint8_t> bytes) final;
  void EncodePartial(std::vector<uint8_t>* out) final;
  // Appends the mean as floats; codecs with another format override this method.
  void EncodeSum(std::vector<uint8_t>* out) override;

 protected:
  // Checks the code of the segment at the front of `bytes` and returns the size of the code.
  virtual Result<size_t> Check(std::span<const uint8_t> bytes) const = 0;
  // Adds the decoded `code`, which Check has accepted, to sum[0, count()).
  virtual void AddTo(std::span<const uint8_t> code, float* sum) const = 0;

  // The number of elements of the segment.
  uint64_t count() const { return sum_.size(); }
  // Sets `mean` to the sum of elements [first, first + mean.size()) divided by the number of ranks
  // added. Add must not be called afterwards.
  void ComputeMeanOfRange(uint64_t first, std::span<float> mean);

 private:
  bool IsAdded(size_t rank) const {
    return rank < next_rank_ || (rank < waiting_codes_.size() && waiting_codes_[rank].has_value());
  }
  // Adds the waiting codes from rank next_rank_ on: with skip_missing all of them, otherwise those
  // before the first rank whose code has not arrived.
  void AddWaitingCodes(bool skip_missing);

  std::vector<float> sum_;
  // waiting_codes_[rank]: a copy of the rank's code, while a lower rank has not been added; empty
  // if a partial sum has it already.
  std::vector<std::optional<std::vector<uint8_t>>> waiting_codes_;
  size_t next_rank_ = 0;  // the lowest rank whose code is not yet in sum_
  int contributors_ = 0;
};

}  // namespace tern::codec
