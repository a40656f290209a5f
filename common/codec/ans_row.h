// A row of symbols, entropy-coded in blocks by one table of its own (kernels/ans.h):
//   u8   first, the lowest symbol that occurs
//   u8   last, the highest
//   u16  the frequencies of first to last - 1; that of `last` is what they leave of M
//   u32  for each block, where it ends, in bytes from where the first one begins
//        the blocks, of `block` symbols, the last one of the rest
// All little-endian. Any block decodes without the others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "kernels/ans.h"

namespace tern::codec {

// Symbols [first, first + n) of a row, which is asked for once and from its beginning on: a part is
// some blocks, so that symbols need not leave a cache.
using AnsSource = std::function<void(uint64_t first, size_t n, uint8_t* symbols)>;

// `counts` says how often each symbol occurs among the `count`. REQUIRES a symbol at least, and
// fewer than 2^30.
void AppendAnsRow(uint64_t count, size_t block, const kernels::AnsCounts& counts,
                  const AnsSource& source, std::vector<uint8_t>* out);

// A row at the front of bytes that came: its table and its size are checked, its blocks are when
// they are decoded. A view of those bytes.
class AnsRow {
 public:
  // Of `count` symbols below `levels`. kMismatch if there is no such row.
  static Result<AnsRow> Parse(std::span<const uint8_t> bytes, uint64_t count, size_t block,
                              size_t levels);

  size_t size() const { return size_; }
  const kernels::AnsFrequencies& frequencies() const { return frequencies_; }
  // All symbols of `blocks` blocks from block `index` on: fastest by kernels::kAnsTogether. `table`
  // is of frequencies(). kMismatch if one is not a block.
  Status Decode(const kernels::AnsTable& table, uint64_t index, size_t blocks,
                uint8_t* symbols) const;

 private:
  AnsRow() = default;
  // The bytes of a block, none if it ends before it begins or beyond the row: no block has none.
  std::span<const uint8_t> Block(uint64_t index) const;
  Status NoBlock(uint64_t index) const;

  uint64_t count_ = 0;
  size_t block_ = 0;
  size_t size_ = 0;
  kernels::AnsFrequencies frequencies_{};
  std::span<const uint8_t> directory_;
  std::span<const uint8_t> blocks_;
};

}  // namespace tern::codec
