// A row of integers, each of which is split into its low bits, which are stored, and its other
// bits, which are entropy-coded as a symbol. The low bits of numbers that are mostly much larger
// have all values about equally often, so that coding them would save next to nothing, but would
// take a long table.
//
// The integers have b bits in two's complement (kernels/codes/planes.h). The number k of low bits
// is chosen for each row, so that the row is as short as possible:
//
//   u8      k, from 0 to b - 2
//   planes  bits 0 to k - 1 of all integers, one plane of PlaneBytes(count) bytes each
//   row     of symbols (ans_row.h): the integer v has the symbol floor(v / 2^k) + 2^(h - 1), below
//           2^h, where h = min(8, b - k)
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/codec/ans_row.h"

namespace tern::codec {

// How integers of `bits` bits are split.
struct Split {
  int bits;
  int low_bits;                                                     // k
  int symbol_bits() const { return std::min(8, bits - low_bits); }  // h
  int symbol_of_zero() const { return 1 << (symbol_bits() - 1); }
};

// How often each symbol of a row occurs with a split.
struct SplitCounts {
  Split split;
  kernels::AnsCounts counts;
};

// Chooses the split of a row of `count` integers in planes. REQUIRES 1 <= count < 2^30, 2 <= bits
// and planes.size() == bits * PlaneBytes(count).
SplitCounts ChooseSplit(std::span<const uint8_t> planes, uint64_t count, int bits);
// Appends the row, in blocks of `block_size` integers. `chosen` must be what ChooseSplit returned.
void AppendSplitRow(std::span<const uint8_t> planes, uint64_t count, const SplitCounts& chosen,
                    size_t block_size, std::vector<uint8_t>* out);

// A row at the front of received bytes. Parse checks the size of the row, its table and the unused
// bits of its planes; Decode checks the blocks that it decodes. A SplitRow only refers to the
// bytes, which must outlive it.
class SplitRow {
 public:
  // Parses a row of `count` integers of `bits` bits. kMismatch if `bytes` does not begin with one.
  // REQUIRES a block_size that is a multiple of 64.
  static Result<SplitRow> Parse(std::span<const uint8_t> bytes, uint64_t count, size_t block_size,
                                int bits);

  // The size of the row in bytes.
  size_t size() const { return 1 + low_planes_.size() + symbols_.size(); }
  const kernels::AnsFrequencies& frequencies() const { return symbols_.frequencies(); }
  // Decodes all integers of blocks [index, index + num_blocks) to `bits` planes; plane p of these
  // integers begins at byte p * stride of `planes`. `symbols` has room for as many bytes as there
  // are integers. `table` must be made from frequencies(). kMismatch if a block is invalid.
  Status Decode(const kernels::AnsTable& table, uint64_t index, size_t num_blocks, size_t stride,
                uint8_t* symbols, uint8_t* planes) const;

 private:
  SplitRow(Split split, uint64_t count, size_t block_size, std::span<const uint8_t> low_planes,
           const AnsRow& symbols)
      : split_(split),
        count_(count),
        block_size_(block_size),
        low_planes_(low_planes),
        symbols_(symbols) {}

  Split split_;
  uint64_t count_;
  size_t block_size_;
  std::span<const uint8_t> low_planes_;
  AnsRow symbols_;
};

}  // namespace tern::codec
