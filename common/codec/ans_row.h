// A row of symbols (bytes), entropy-coded in blocks with a table of symbol frequencies that the row
// carries (kernels/codes/ans.h). Frequencies add up to kAnsSlots. All numbers are little-endian:
//
//   u8      first: the lowest symbol that occurs
//   u8      last: the highest symbol that occurs
//   u16     for each symbol from first to last - 1: its frequency. The frequency of `last` is
//           kAnsSlots minus the sum of the others
//   u32     for each block: its end, in bytes from the beginning of the first block (the directory)
//   blocks  of `block_size` symbols each; the last one may be shorter
//
// Any block can be decoded without the others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "kernels/codes/ans.h"

namespace tern::codec {

// Writes symbols [first, first + n) of a row. Called once per range, in order from the beginning of
// the row; a range is a few blocks, so that the symbols stay in a cache.
using AnsSource = std::function<void(uint64_t first, size_t n, uint8_t* symbols)>;

// Counts the symbols of `count` integers of `bits` bits in planes; `zero` is the symbol of 0
// (kernels/codes/ans_symbols.h). Counts range by range, so that the symbols stay in a cache.
kernels::AnsCounts CountsOfPlanes(std::span<const uint8_t> planes, uint64_t count, int bits,
                                  int zero);

// Appends a row of `count` symbols in blocks of `block_size` symbols; counts[s] says how often
// symbol s occurs. REQUIRES 1 <= count < 2^30.
void AppendAnsRow(uint64_t count, size_t block_size, const kernels::AnsCounts& counts,
                  const AnsSource& source, std::vector<uint8_t>* out);

// A row at the front of received bytes. Parse checks the table and the size of the row; Decode
// checks the blocks that it decodes. An AnsRow only refers to the bytes, which must outlive it.
class AnsRow {
 public:
  // Parses a row of `count` symbols below `symbol_end`, in blocks of block_size symbols. kMismatch
  // if `bytes` does not begin with such a row.
  static Result<AnsRow> Parse(std::span<const uint8_t> bytes, uint64_t count, size_t block_size,
                              size_t symbol_end);

  // The size of the row in bytes.
  size_t size() const { return size_; }
  const kernels::AnsFrequencies& frequencies() const { return frequencies_; }
  // Decodes all symbols of blocks [index, index + num_blocks). It is fastest with
  // kernels::kAnsMaxBlocks blocks per call. `table` must be made from frequencies(). kMismatch if a
  // block is invalid.
  Status Decode(const kernels::AnsTable& table, uint64_t index, size_t num_blocks,
                uint8_t* symbols) const;

 private:
  AnsRow() = default;
  // The bytes of a block. Empty, which is never valid, if the directory puts the block's end before
  // its beginning or beyond the row.
  std::span<const uint8_t> BlockBytes(uint64_t index) const;
  Status InvalidBlockError(uint64_t index) const;

  uint64_t count_ = 0;     // symbols in the row
  size_t block_size_ = 0;  // symbols per block
  size_t size_ = 0;        // bytes of the row
  kernels::AnsFrequencies frequencies_{};
  std::span<const uint8_t> directory_;
  std::span<const uint8_t> blocks_;
};

}  // namespace tern::codec
