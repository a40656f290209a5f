// Rows of entropy-coded symbols (rANS: Duda 2013, Giesen 2014; kernels/codes/ans.h). Writes and
// checks a row's table of symbol frequencies and its directory of the ends of blocks.
#include "common/codec/ans_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>

#include "kernels/codes/ans_symbols.h"

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
Result<size_t> ParseTable(std::span<const uint8_t> bytes, size_t symbol_end,
                          kernels::AnsFrequencies* frequencies) {
  if (bytes.size() < 2) return CutShortError(bytes.size(), 2, "a range of symbols");
  const size_t first_symbol = bytes[0], last_symbol = bytes[1];
  if (first_symbol > last_symbol || last_symbol >= symbol_end) {
    return Status(Code::kMismatch,
                  "entropy-coded row has symbols from " + std::to_string(first_symbol) + " to " +
                      std::to_string(last_symbol) + ", expected an ascending range below " +
                      std::to_string(symbol_end));
  }
  const size_t table_size = 2 + 2 * (last_symbol - first_symbol);
  if (bytes.size() < table_size) return CutShortError(bytes.size(), table_size, "a table");
  uint32_t frequency_sum = 0;
  for (size_t s = first_symbol; s < last_symbol; ++s) {
    (*frequencies)[s] = NumberAt<uint16_t>(bytes.subspan(2), s - first_symbol);
    frequency_sum += (*frequencies)[s];
  }
  if (frequency_sum >= kAnsSlots ||
      (first_symbol < last_symbol && (*frequencies)[first_symbol] == 0)) {
    return Status(Code::kMismatch, "entropy-coded row has frequencies with the sum " +
                                       std::to_string(frequency_sum) + ", expected less than " +
                                       std::to_string(kAnsSlots) + ", the first of them above 0");
  }
  (*frequencies)[last_symbol] = static_cast<uint16_t>(kAnsSlots - frequency_sum);
  return table_size;
}

}  // namespace

kernels::AnsCounts CountsOfPlanes(std::span<const uint8_t> planes, uint64_t count, int bits,
                                  int zero) {
  std::array<uint8_t, 32768> symbols;
  kernels::AnsCounts counts{};
  for (uint64_t at = 0; at < count; at += symbols.size()) {
    const size_t n = std::min<uint64_t>(symbols.size(), count - at);
    kernels::SymbolsOfPlanes(planes.data(), count, bits, zero, at, n, symbols.data());
    const kernels::AnsCounts range_counts = kernels::CountSymbols(symbols.data(), n);
    for (size_t s = 0; s < size_t{1} << bits; ++s) counts[s] += range_counts[s];
  }
  return counts;
}

void AppendAnsRow(uint64_t count, size_t block_size, const kernels::AnsCounts& counts,
                  const AnsSource& source, std::vector<uint8_t>* out) {
  const kernels::AnsTable table(kernels::FrequenciesOf(counts));
  out->push_back(static_cast<uint8_t>(table.first_symbol));
  out->push_back(static_cast<uint8_t>(table.last_symbol));
  for (size_t s = table.first_symbol; s < table.last_symbol; ++s)
    AppendNumber(table.frequency[s], out);

  size_t directory_at = out->size();  // where the end of the next block is written
  out->resize(directory_at + (count + block_size - 1) / block_size * sizeof(uint32_t));
  const size_t blocks_begin = out->size();
  const size_t max_blocks = std::clamp<uint64_t>(
      count / block_size, 1, kAnsMaxBlocks);  // the most blocks per call of EncodeAns
  const size_t max_length = std::min<uint64_t>(count, block_size);
  const auto symbols = std::make_unique_for_overwrite<uint8_t[]>(max_blocks * max_length);
  const auto code_buffer =
      std::make_unique_for_overwrite<uint8_t[]>(max_blocks * kernels::MaxAnsBytes(max_length));
  for (uint64_t first = 0; first < count;) {
    const size_t num_full_blocks = std::min<uint64_t>(kAnsMaxBlocks, (count - first) / block_size);
    const size_t n = num_full_blocks == 0 ? count - first : block_size;
    std::array<std::span<const uint8_t>, kAnsMaxBlocks> blocks_storage;
    const auto coded_blocks = std::span(blocks_storage).first(std::max<size_t>(1, num_full_blocks));
    source(first, coded_blocks.size() * n, symbols.get());
    kernels::EncodeAns(table, symbols.get(), n, coded_blocks, code_buffer.get());
    for (const std::span<const uint8_t> bytes : coded_blocks) {
      out->insert(out->end(), bytes.begin(), bytes.end());
      const auto block_end = static_cast<uint32_t>(out->size() - blocks_begin);
      std::memcpy(out->data() + directory_at, &block_end, sizeof block_end);
      directory_at += sizeof block_end;
    }
    first += coded_blocks.size() * n;
  }
}

Result<AnsRow> AnsRow::Parse(std::span<const uint8_t> bytes, uint64_t count, size_t block_size,
                             size_t symbol_end) {
  AnsRow row;
  row.count_ = count;
  row.block_size_ = block_size;
  Result<size_t> table_size = ParseTable(bytes, symbol_end, &row.frequencies_);
  if (!table_size.ok()) return table_size.status();
  const size_t num_blocks = (count + block_size - 1) / block_size;
  const size_t begin = *table_size + num_blocks * sizeof(uint32_t);
  if (bytes.size() < begin) return CutShortError(bytes.size(), begin, "a table and directory");
  row.directory_ = bytes.subspan(*table_size, begin - *table_size);
  const size_t last_end = num_blocks == 0 ? 0 : NumberAt<uint32_t>(row.directory_, num_blocks - 1);
  if (bytes.size() - begin < last_end)
    return CutShortError(bytes.size() - begin, last_end, "blocks");
  row.blocks_ = bytes.subspan(begin, last_end);
  row.size_ = begin + last_end;
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
  const size_t n = std::min<uint64_t>(block_size_, count_ - index * block_size_);
  return Status(Code::kMismatch, "bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                                     " of an entropy-coded row are not a valid block of " +
                                     std::to_string(n) + " symbols");
}

Status AnsRow::Decode(const kernels::AnsTable& table, uint64_t index, size_t num_blocks,
                      uint8_t* symbols) const {
  for (const uint64_t index_end = index + num_blocks; index < index_end;) {
    const uint64_t remaining = count_ - index * block_size_;
    const size_t n = std::min<uint64_t>(block_size_, remaining);
    std::array<std::span<const uint8_t>, kAnsMaxBlocks> block_bytes;
    const auto coded_blocks =
        std::span<const std::span<const uint8_t>>(block_bytes)
            .first(std::min<uint64_t>({kAnsMaxBlocks, remaining / n, index_end - index}));
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
