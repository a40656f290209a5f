// Segments with few non-zeros: one wire format for all sparse codecs, and for their sums.
//
//   values      pairs only: the values of negative and of positive elements, two singles
//   directory   2 bytes per block of 4096 elements (the last block may be shorter): k, how many of
//               its L elements are sent. With it any block can be found and decoded alone
//   blocks      the places of the k elements, then their values; nothing if k is 0
//
// Numbers are little-endian, floats IEEE singles, bits are filled from the lowest of a byte up,
// unused bits are zero. Places are the shorter of
//
//   bitmap      L bits, one per element
//   Elias-Fano  with l = floor(log2(L / k)): the low l bits of each place; then k + ((L - 1) >> l)
//               bits, in which bit (place >> l) + i is one for the i-th place (Elias 1974: within
//               0.6 bits per place of the entropy of k among L)
//
// so k alone determines the length of a block. Values are
//
//   floats      k singles. If L singles take no more bytes than k singles with their places, the
//               block is dense: its directory entry is L, it has no places, and values may be zero
//   pairs       k bits, one = positive
//
// The code of a segment is unique: zeros are sent only in dense blocks, and -0 becomes 0. The
// largest code is 4 L + 2 bytes per block of floats, L / 4 + 2 (plus 8 in all) of pairs.
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
  float low = 0;   // at most 0
  float high = 0;  // at least 0
};

// Writes the values to send of elements [first, first + x.size()), zero where nothing is sent.
// Called with the blocks in order. For pairs only the signs are used.
using FillSparse = std::function<void(uint64_t first, std::span<float> x)>;

// Appends the code of `count` elements. REQUIRES finite values; in a pair neither value is -0, nor
// 0 if an element of its sign is sent.
void AppendSparse(uint64_t count, const FillSparse& fill, std::vector<uint8_t>* out);
void AppendSparse(const SparsePair& pair, uint64_t count, const FillSparse& fill,
                  std::vector<uint8_t>* out);

// Sends the floats of g[0, count) whose magnitude is at least `threshold`.
void AppendFrom(const float* g, uint64_t count, float threshold, std::vector<uint8_t>* out);

// The most bytes of the code of `count` elements.
size_t MaxSparseSize(SparseValues values, uint64_t count);

// A view of a code at the front of some bytes, which must outlive it.
class SparseCode {
 public:
  // Reads the directory; kMismatch if it is invalid, or if `bytes` is shorter than the blocks in
  // it.
  static Result<SparseCode> Parse(SparseValues values, std::span<const uint8_t> bytes,
                                  uint64_t count);
  size_t size() const { return bytes_.size(); }
  // x[0, n) = elements [first, first + n). Checks the blocks that it reads first; kMismatch if one
  // is invalid. Costs the directory and those blocks. REQUIRES first + n <= count.
  Status Decode(uint64_t first, uint64_t n, float* x) const;
  // Calls `visit` for all blocks that are not empty, in order. Checks and decodes as Decode does.
  using Visit = std::function<void(uint64_t first, std::span<const float> x)>;
  Status ForEachBlock(const Visit& visit) const;

 private:
  size_t Sent(uint64_t block) const;    // k
  size_t Length(uint64_t block) const;  // L
  size_t BodySize(uint64_t block) const;
  // Decodes x[0, Length(block)) from the block's body.
  Status DecodeBlock(uint64_t block, std::span<const uint8_t> body, float* x) const;

  SparseValues values_ = SparseValues::kFloats;
  SparsePair pair_;
  uint64_t count_ = 0;
  std::span<const uint8_t> bytes_;
  std::span<const uint8_t> directory_;
  std::span<const uint8_t> bodies_;
};

// The base class of the sparse codecs: sums are decoded, added in rank order, and sent down as the
// floats of all elements that any worker sent.
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
  Result<size_t> SumSize(std::span<const uint8_t> bytes, const Segment& segment,
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
