// Rows of entropy-coded symbols (rANS: Duda 2013, Giesen 2014; kernels/codes/ans.h): the table, the
// directory of blocks and the checks of received rows.
#include "common/codec/ans_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>

namespace tern::codec {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie");

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

Status CutShort(size_t seen, size_t expected, const char* what) {
  return Status(Code::kMismatch, "entropy-coded row cut short: " + std::to_string(seen) +
                                     " bytes, expected " + what + " of " +
                                     std::to_string(expected));
}

// Reads the table at the front of `bytes`; returns its size.
Result<size_t> ParseTable(std::span<const uint8_t> bytes, size_t levels,
                          kernels::AnsFrequencies* frequencies) {
  if (bytes.size() < 2) return CutShort(bytes.size(), 2, "a range of symbols");
  const size_t first = bytes[0], last = bytes[1];
  if (first > last || last >= levels) {
    return Status(Code::kMismatch, "entropy-coded row has symbols from " + std::to_string(first) +
                                       " to " + std::to_string(last) +
                                       ", expected an ascending range below " +
                                       std::to_string(levels));
  }
  const size_t size = 2 + 2 * (last - first);
  if (bytes.size() < size) return CutShort(bytes.size(), size, "a table");
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

  size_t end_at = out->size();
  out->resize(end_at + (count + block - 1) / block * sizeof(uint32_t));
  const size_t begin = out->size();
  const size_t max_blocks =
      std::clamp<uint64_t>(count / block, 1, kAnsMaxBlocks);  // blocks per call
  const size_t longest = std::min<uint64_t>(count, block);
  const auto symbols = std::make_unique_for_overwrite<uint8_t[]>(max_blocks * longest);
  const auto room =
      std::make_unique_for_overwrite<uint8_t[]>(max_blocks * kernels::MaxAnsBytes(longest));
  for (uint64_t at = 0; at < count;) {
    const size_t whole = std::min<uint64_t>(kAnsMaxBlocks, (count - at) / block);
    const size_t n = whole == 0 ? count - at : block;
    std::array<std::span<const uint8_t>, kAnsMaxBlocks> coded;
    const auto parts = std::span(coded).first(std::max<size_t>(1, whole));
    source(at, parts.size() * n, symbols.get());
    kernels::EncodeAns(table, symbols.get(), n, parts, room.get());
    for (const std::span<const uint8_t> part : parts) {
      out->insert(out->end(), part.begin(), part.end());
      const auto end = static_cast<uint32_t>(out->size() - begin);
      std::memcpy(out->data() + end_at, &end, sizeof end);
      end_at += sizeof end;
    }
    at += parts.size() * n;
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
  if (bytes.size() < begin) return CutShort(bytes.size(), begin, "a table and directory");
  row.directory_ = bytes.subspan(*table, begin - *table);
  const size_t end = blocks == 0 ? 0 : NumberAt<uint32_t>(row.directory_, blocks - 1);
  if (bytes.size() - begin < end) return CutShort(bytes.size() - begin, end, "blocks");
  row.blocks_ = bytes.subspan(begin, end);
  row.size_ = begin + end;
  return row;
}

std::span<const uint8_t> AnsRow::Block(uint64_t index) const {
  const size_t begin = index == 0 ? 0 : NumberAt<uint32_t>(directory_, index - 1);
  const size_t end = NumberAt<uint32_t>(directory_, index);
  if (begin > end || end > blocks_.size()) return {};
  return blocks_.subspan(begin, end - begin);
}

Status AnsRow::InvalidBlock(uint64_t index) const {
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
    const uint64_t rest = count_ - index * block_;
    const size_t n = std::min<uint64_t>(block_, rest);
    std::array<std::span<const uint8_t>, kAnsMaxBlocks> some;
    const auto parts = std::span<const std::span<const uint8_t>>(some).first(
        std::min<uint64_t>({kAnsMaxBlocks, rest / n, end - index}));
    for (size_t k = 0; k < parts.size(); ++k) some[k] = Block(index + k);
    if (!kernels::DecodeAns(table, blocks_, parts, n, symbols)) {
      // Names the first invalid block, as if blocks were decoded one by one.
      for (size_t k = 0; k < parts.size(); ++k, ++index) {
        if (!kernels::DecodeAns(table, blocks_, parts.subspan(k, 1), n, symbols)) break;
      }
      return InvalidBlock(index);
    }
    symbols += parts.size() * n;
    index += parts.size();
  }
  return Ok();
}

}  // namespace tern::codec
