// Rows of entropy-coded symbols (rANS: Duda 2013, Giesen 2014; kernels/codes/ans.h). Writes and
// checks a row's table of symbol frequencies and its directory of the ends of blocks.
#include "common/codec/ans_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>

namespace tern::codec {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are stored in native byte order");

using kernels::kAnsMaxBlocks;
using kernels::kAnsSlots;

template <class T>
void AppendNumber(T value, std::vector<uint8_t>* out) {
  uint8_t bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->insert(out->end(), bytes, bytes + sizeof(T));
}

template <class T>
T NumberAt(std::span<const uint8_t> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

Status CutShortError(size_t actual, size_t expected, const char* section) {
  return Status(Code::kMismatch, "entropy-coded row cut short: " + std::to_string(actual) +
                                     " bytes, expected " + section + " of " +
                                     std::to_string(expected));
}

// Reads the table of frequencies at the front of `bytes`. Returns the size of the table in bytes.
Result<size_t> ParseTable(std::span<const uint8_t> bytes, size_t levels,
                          kernels::AnsFrequencies* frequencies) {
  if (bytes.size() < 2) return CutShortError(bytes.size(), 2, "a range of symbols");
  const size_t first = bytes[0], last = bytes[1];
  if (first > last || last >= levels) {
    return Status(Code::kMismatch, "entropy-coded row has symbols from " + std::to_string(first) +
                                       " to " + std::to_string(last) +
                                       ", expected an ascending range below " +
                                       std::to_string(levels));
  }
  const size_t size = 2 + 2 * (last - first);
  if (bytes.size() < size) return CutShortError(bytes.size(), size, "a table");
  uint32_t sum = 0;
  for (size_t s = first; s < last; ++s) {
    (*frequencies)[s] = NumberAt<uint16_t>(bytes.subspan(2), s - first);
    sum += (*frequencies)[s];
  }
  if (sum >= kAnsSlots || (first < last && (*frequencies)[first] == 0)) {
    return Status(Code::kMismatch, "entropy-coded row has frequencies with the sum " +
                                       std::to_string(sum) + ", expected less than " +
                                       std::to_string(kAnsSlots) + ", the first of them above 0");
  }
  (*frequencies)[last] = static_cast<uint16_t>(kAnsSlots - sum);
  return size;
}

}  // namespace

void AppendAnsRow(uint64_t count, size_t block, const kernels::AnsCounts& counts,
                  const AnsSource& source, std::vector<uint8_t>* out) {
  const kernels::AnsTable table(kernels::FrequenciesOf(counts));
  out->push_back(static_cast<uint8_t>(table.first));
  out->push_back(static_cast<uint8_t>(table.last));
  for (size_t s = table.first; s < table.last; ++s) AppendNumber(table.frequency[s], out);

  size_t directory_at = out->size();  // where the end of the next block is written
  out->resize(directory_at + (count + block - 1) / block * sizeof(uint32_t));
  const size_t begin = out->size();
  const size_t max_blocks = std::clamp<uint64_t>(
      count / block, 1, kAnsMaxBlocks);  // the most blocks per call of EncodeAns
  const size_t max_block_size = std::min<uint64_t>(count, block);
  const auto symbols = std::make_unique_for_overwrite<uint8_t[]>(max_blocks * max_block_size);
  const auto coded_bytes =
      std::make_unique_for_overwrite<uint8_t[]>(max_blocks * kernels::MaxAnsBytes(max_block_size));
  for (uint64_t at = 0; at < count;) {
    const size_t whole_blocks = std::min<uint64_t>(kAnsMaxBlocks, (count - at) / block);
    const size_t n = whole_blocks == 0 ? count - at : block;
    std::array<std::span<const uint8_t>, kAnsMaxBlocks> coded;
    const auto coded_blocks = std::span(coded).first(std::max<size_t>(1, whole_blocks));
    source(at, coded_blocks.size() * n, symbols.get());
    kernels::EncodeAns(table, symbols.get(), n, coded_blocks, coded_bytes.get());
    for (const std::span<const uint8_t> bytes : coded_blocks) {
      out->insert(out->end(), bytes.begin(), bytes.end());
      const auto end = static_cast<uint32_t>(out->size() - begin);
      std::memcpy(out->data() + directory_at, &end, sizeof end);
      directory_at += sizeof end;
    }
    at += coded_blocks.size() * n;
  }
}

Result<AnsRow> AnsRow::Parse(std::span<const uint8_t> bytes, uint64_t count, size_t block,
                             size_t levels) {
  AnsRow row;
  row.count_ = count;
  row.block_ = block;
  Result<size_t> table = ParseTable(bytes, levels, &row.frequencies_);
  if (!table.ok()) return table.status();
  const size_t blocks = (count + block - 1) / block;
  const size_t begin = *table + blocks * sizeof(uint32_t);
  if (bytes.size() < begin) return CutShortError(bytes.size(), begin, "a table and directory");
  row.directory_ = bytes.subspan(*table, begin - *table);
  const size_t end = blocks == 0 ? 0 : NumberAt<uint32_t>(row.directory_, blocks - 1);
  if (bytes.size() - begin < end) return CutShortError(bytes.size() - begin, end, "blocks");
  row.blocks_ = bytes.subspan(begin, end);
  row.size_ = begin + end;
  return row;
}

std::span<const uint8_t> AnsRow::BlockBytes(uint64_t index) const {
  const size_t begin = index == 0 ? 0 : NumberAt<uint32_t>(directory_, index - 1);
  const size_t end = NumberAt<uint32_t>(directory_, index);
  if (begin > end || end > blocks_.size()) return {};
  return blocks_.subspan(begin, end - begin);
}

Status AnsRow::InvalidBlockError(uint64_t index) const {
  const size_t begin = index == 0 ? 0 : NumberAt<uint32_t>(directory_, index - 1);
  const size_t end = NumberAt<uint32_t>(directory_, index);
  const size_t n = std::min<uint64_t>(block_, count_ - index * block_);
  return Status(Code::kMismatch, "bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                                     " of an entropy-coded row are not a valid block of " +
                                     std::to_string(n) + " symbols");
}

Status AnsRow::Decode(const kernels::AnsTable& table, uint64_t index, size_t blocks,
                      uint8_t* symbols) const {
  for (const uint64_t end = index + blocks; index < end;) {
    const uint64_t remaining = count_ - index * block_;
    const size_t n = std::min<uint64_t>(block_, remaining);
    std::array<std::span<const uint8_t>, kAnsMaxBlocks> block_bytes;
    const auto coded_blocks =
        std::span<const std::span<const uint8_t>>(block_bytes)
            .first(std::min<uint64_t>({kAnsMaxBlocks, remaining / n, end - index}));
    for (size_t k = 0; k < coded_blocks.size(); ++k) block_bytes[k] = BlockBytes(index + k);
    if (!kernels::DecodeAns(table, blocks_, coded_blocks, n, symbols)) {
      // Decodes the blocks one by one, to report the first invalid one.
      for (size_t k = 0; k < coded_blocks.size(); ++k, ++index) {
        if (!kernels::DecodeAns(table, blocks_, coded_blocks.subspan(k, 1), n, symbols)) break;
      }
      return InvalidBlockError(index);
    }
    symbols += coded_blocks.size() * n;
    index += coded_blocks.size();
  }
  return Ok();
}

}  // namespace tern::codec
