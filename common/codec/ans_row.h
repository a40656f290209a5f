// A row of symbols, entropy-coded in blocks by a table of its own (kernels/codes/ans.h), all
// little-endian:
//
//   u8      first, the lowest symbol that occurs
//   u8      last, the highest
//   u16     for each symbol from first to last - 1: its frequency; `last` gets the rest of M
//   u32     for each block: its end, in bytes from the beginning of the first block
//   blocks  of `block` symbols each; the last one may be shorter
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

// Appends a row of `count` symbols; `counts` has how often each occurs. REQUIRES at least one
// symbol and fewer than 2^30.
void AppendAnsRow(uint64_t count, size_t block, const kernels::AnsCounts& counts,
                  const AnsSource& source, std::vector<uint8_t>* out);

// A row at the front of received bytes. Parse checks its table and its size; Decode checks the
// blocks that it decodes. An AnsRow only refers to the bytes, which must outlive it.
class AnsRow {
 public:
  // A row of `count` symbols below `levels`. kMismatch if the bytes do not begin with one.
  static Result<AnsRow> Parse(std::span<const uint8_t> bytes, uint64_t count, size_t block,
                              size_t levels);

  size_t size() const { return size_; }
  const kernels::AnsFrequencies& frequencies() const { return frequencies_; }
  // Decodes all symbols of `blocks` blocks from block `index` on; fastest with
  // kernels::kAnsMaxBlocks blocks. `table` must be made from frequencies(). kMismatch if a block is
  // invalid.
  Status Decode(const kernels::AnsTable& table, uint64_t index, size_t blocks,
                uint8_t* symbols) const;

 private:
  AnsRow() = default;
  // The bytes of a block; empty (which no valid block is) if its end is before its beginning or
  // beyond the row.
  std::span<const uint8_t> Block(uint64_t index) const;
  Status InvalidBlock(uint64_t index) const;

  uint64_t count_ = 0;
  size_t block_ = 0;
  size_t size_ = 0;
  kernels::AnsFrequencies frequencies_{};
  std::span<const uint8_t> directory_;
  std::span<const uint8_t> blocks_;
};

}  // namespace tern::codec
