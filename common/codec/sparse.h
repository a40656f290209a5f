// The wire format of segments in which few elements are not zero, for all sparse codecs and for
// their sums. There are two kinds: "floats" sends a float for each non-zero element; "pair" sends
// only the signs of the non-zero elements, one float that stands for all negative elements, and one
// float that stands for all positive elements.
//
//   values      only for pair: the value of negative and the value of positive elements
//   directory   2 bytes per block of 4096 elements (the last block may be shorter): k, how many of
//               the block's L elements are sent. With the directory any block can be found and
//               decoded without the others
//   blocks      for each block the positions in the block of the k elements, then their values;
//               nothing if k is 0
//
// Integers are little-endian, floats are IEEE singles, bits fill each byte from its lowest bit up,
// and unused bits are zero. The positions of a block are in the shorter of two formats:
//
//   bitmap      L bits, one per element, 1 if it is sent
//   Elias-Fano  with l = floor(log2(L / k)): the low l bits of each position; then
//               k + ((L - 1) >> l) bits, in which bit (position >> l) + i is one for the i-th
//               position (Elias 1974; at most 0.6 bits per position more than the entropy)
//
// The length of both follows from k and L. The values of a block are
//
//   floats      k floats. If L floats take no more bytes than k floats with their positions, the
//               block is dense instead: its directory entry is L, it has L floats, some of which
//               may be zero, and no positions
//   pair        k bits, 1 for a positive element
//
// Equal segments have equal codes: zeros are sent only in dense blocks, and -0 becomes 0. The
// largest code has 4 L + 2 bytes per block with floats, and 2 ceil(L / 8) + 2 bytes per block plus
// 8 bytes with a pair.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/codec/codec.h"

namespace tern::codec {

inline constexpr uint64_t kSparseBlock = 4096;  // elements per block, except the last

enum class SparseValues { kFloats, kPair };

// The two values of the kind "pair".
struct SparsePair {
  float low = 0;   // the value of negative elements, at most 0
  float high = 0;  // the value of positive elements, at least 0
};

// A function that sets x to the values to send of elements [first, first + x.size()), zero where
// nothing is sent. It is called for one block after the other. For a pair only the signs of x
// matter.
using FillSparse = std::function<void(uint64_t first, std::span<float> x)>;

// Appends the code of `count` elements whose values `fill` sets. REQUIRES finite values. Neither
// value of a pair may be -0, and a value of a pair may be 0 only if no element of its sign is sent.
void AppendSparse(uint64_t count, const FillSparse& fill, std::vector<uint8_t>* out);
void AppendSparse(const SparsePair& pair, uint64_t count, const FillSparse& fill,
                  std::vector<uint8_t>* out);

// Appends the code, with floats, of the elements of g[0, count) whose magnitude is at least
// `threshold`.
void AppendSparseAtLeast(const float* g, uint64_t count, float threshold,
                         std::vector<uint8_t>* out);

// The most bytes of the code of `count` elements.
size_t MaxSparseSize(SparseValues values, uint64_t count);

// A parsed code. It refers to the bytes of the code, which must outlive it.
class SparseCode {
 public:
  // Reads the directory, and the pair, of a code of `count` elements at the front of `bytes`.
  // kMismatch if one of them is invalid, or if `bytes` is shorter than the directory says.
  static Result<SparseCode> Parse(SparseValues values, std::span<const uint8_t> bytes,
                                  uint64_t count);
  // The size of the code in bytes.
  size_t size() const { return bytes_.size(); }
  // Decodes elements [first, first + n) into x[0, n). Checks each block before decoding it;
  // kMismatch if one is invalid. The time is that of scanning the directory and decoding the blocks
  // with these elements. REQUIRES first + n <= count.
  Status Decode(uint64_t first, uint64_t n, float* x) const;
  // kMismatch if a block is invalid.
  Status Check() const;
  // Appends the positions of the elements that are not 0, in ascending order. Values are checked
  // only in blocks that do not list positions.
  Status AppendPositions(std::vector<uint32_t>* positions) const;
  // Adds the values to sum[0, count). kMismatch if a block is invalid; the sum then has those of
  // earlier blocks.
  Status AddTo(float* sum) const;

 private:
  // NumSent and BlockLength are k and L of the comment at the top of this file. IsDense: whether
  // the block is dense. BlockBodySize: the bytes of a block without its directory entry.
  size_t NumSent(uint64_t block) const;
  size_t BlockLength(uint64_t block) const;
  bool IsDense(uint64_t block) const;
  size_t BlockBodySize(uint64_t block) const;
  struct SentValues;
  // Reads and checks what a block sends. `body`: the block's positions and values.
  Status ReadBlock(uint64_t block, std::span<const uint8_t> body, SentValues* sent) const;
  // The same, but the values only of a dense block.
  Status ReadPositions(uint64_t block, std::span<const uint8_t> body, SentValues* sent) const;
  // Reads the values of a dense block to values[0, BlockLength(block)).
  Status ReadDenseBlock(uint64_t block, std::span<const uint8_t> body, float* values) const;
  using BlockReader = Status (SparseCode::*)(uint64_t, std::span<const uint8_t>, SentValues*) const;
  template <typename Use>
  Status ForEachBlock(BlockReader read, Use use) const;
  // Decodes a block into x[0, BlockLength(block)).
  Status DecodeBlock(uint64_t block, std::span<const uint8_t> body, float* x) const;

  SparseValues values_ = SparseValues::kFloats;
  SparsePair pair_;
  uint64_t count_ = 0;
  std::span<const uint8_t> bytes_;
  std::span<const uint8_t> directory_;
  std::span<const uint8_t> bodies_;
};

// The base class of the sparse codecs. The server decodes the codes, adds them in rank order, and
// sends the mean in the wire format above with floats: all elements whose mean is not zero.
class SparseCodec : public Codec {
 public:
  explicit SparseCodec(SparseValues values) : values_(values) {}

  size_t MaxEncodedSize(const Segment& segment) const override {
    return MaxSparseSize(values_, segment.count);
  }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const RecodeInputs& recode_inputs) const override;
  size_t MaxSumSize(const Segment& segment, int /*contributors*/) const override {
    return MaxSparseSize(SparseValues::kFloats, segment.count);
  }
  Result<size_t> SumSize(std::span<const uint8_t> bytes, const Segment& segment,
                         int contributors) const override;
  bool SingleCodeIsSum() const override { return values_ == SparseValues::kFloats; }
  Result<size_t> DecodeSingleCode(std::span<const uint8_t> code, const Segment& segment,
                                  float* values) const override;
  // With floats, takes the positions from the code without decoding the rest. REQUIRES that the
  // codec sends elements of v as they are.
  Status UpdateMemory(std::span<const uint8_t> code, const Segment& segment,
                      std::span<const float> v, Memory* memory) const override;
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                float scaler, uint64_t first, uint64_t n, float* mean) const override;

 private:
  SparseValues values_;
};

}  // namespace tern::codec
