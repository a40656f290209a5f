// Segments of which few elements are not zero: one wire for all codecs that send such, and for
// their sums.
//
//   values      pairs only: what a negative and what a positive element becomes, two singles
//   directory   2 bytes a block of 4096 elements: k, how many of its L elements are sent (the last
//               block has what is left), so that any block is found and decoded alone
//   blocks      where the k elements are, then their values; nothing where k is 0
//
// Numbers are little-endian, floats IEEE singles, bits go from the lowest of a byte up, unused bits
// are zero. Places are the shorter of
//   bitmap      L bits, one an element
//   Elias-Fano  l = floor(log2(L / k)) low bits of each place; then bit (place >> l) + i for the
//               i-th of them is one, of k + ((L - 1) >> l) bits (Elias 1974: within 0.6 bits a
//               place of the entropy of k among L)
// so k alone says how long a block is. Values are
//   floats      k singles. Where L of them cost no more than k with their places, the block is
//               dense: its directory says L, it has no places, and zeros may be among the values
//   pairs       k bits, one = positive
// Every segment has one code and no more: zeros are never sent but in dense blocks, -0 is 0.
// The largest code is 4 L + 2 bytes a block of floats, L / 4 + 2 (and 8) of pairs.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/codec/codec.h"

namespace tern::codec {

inline constexpr uint64_t kSparseBlock = 4096;

enum class SparseValues { kFloats, kPair };

struct SparsePair {
  float low = 0;   // not above 0
  float high = 0;  // not below 0
};

// Writes what is to be sent of elements [first, first + x.size()), zero where nothing is. Called
// with the blocks in order. Of pairs only the signs count.
using FillSparse = std::function<void(uint64_t first, std::span<float> x)>;

// Appends the code of `count` elements. REQUIRES finite values; of a pair, neither is -0, nor 0
// where an element of its sign is sent.
void AppendSparse(uint64_t count, const FillSparse& fill, std::vector<uint8_t>* out);
void AppendSparse(const SparsePair& pair, uint64_t count, const FillSparse& fill,
                  std::vector<uint8_t>* out);

// The floats g[0, count) whose magnitude is `threshold` or more.
void AppendFrom(const float* g, uint64_t count, float threshold, std::vector<uint8_t>* out);

// The most bytes that the code of `count` elements has.
size_t MaxSparseSize(SparseValues values, uint64_t count);

// A code at the front of some bytes, which must outlive the view.
class SparseCode {
 public:
  // Reads the directory: kMismatch if it cannot be, or if the blocks that it tells of are cut
  // short.
  static Result<SparseCode> Parse(SparseValues values, std::span<const uint8_t> bytes,
                                  uint64_t count);
  size_t size() const { return bytes_.size(); }
  // x[0, n) = elements [first, first + n), of blocks that are checked first; kMismatch if one of
  // them is no code. Costs the directory and the blocks. REQUIRES first + n <= count.
  Status Decode(uint64_t first, uint64_t n, float* x) const;
  // The same of all blocks that send something, one after the other.
  using Visit = std::function<void(uint64_t first, std::span<const float> x)>;
  Status ForEachBlock(const Visit& visit) const;

 private:
  size_t Sent(uint64_t block) const;    // k
  size_t Length(uint64_t block) const;  // L
  size_t BodySize(uint64_t block) const;
  // x[0, Length(block)), from the block's body.
  Status DecodeBlock(uint64_t block, std::span<const uint8_t> body, float* x) const;

  SparseValues values_ = SparseValues::kFloats;
  SparsePair pair_;
  uint64_t count_ = 0;
  std::span<const uint8_t> bytes_;
  std::span<const uint8_t> directory_;
  std::span<const uint8_t> bodies_;
};

// What codecs that send few elements share: their sums are decoded, added in rank order and go down
// as floats, those that anyone sent.
class SparseCodec : public Codec {
 public:
  explicit SparseCodec(SparseValues values) : values_(values) {}

  size_t MaxEncodedSize(const Segment& segment) const override {
    return MaxSparseSize(values_, segment.count);
  }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const Recode& recode) const override;
  size_t MaxSumSize(const Segment& segment, int /*contributors*/) const override {
    return MaxSparseSize(SparseValues::kFloats, segment.count);
  }
  Result<size_t> SumPart(std::span<const uint8_t> bytes, const Segment& segment,
                         int contributors) const override;
  bool CodeIsSum() const override { return values_ == SparseValues::kFloats; }
  Result<size_t> DecodeAlone(std::span<const uint8_t> code, const Segment& segment,
                             float* values) const override;
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                float scaler, uint64_t first, uint64_t n, float* mean) const override;

 private:
  SparseValues values_;
};

}  // namespace tern::codec
