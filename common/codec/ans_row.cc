#include "common/codec/ans_row.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace tern::codec {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie");

constexpr uint32_t kSlots = 1 << kernels::kAnsBits;

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

Status Short(size_t seen, size_t expected, const char* what) {
  return Status(Code::kMismatch, "entropy-coded row cut short: " + std::to_string(seen) +
                                     " bytes, expected " + what + " of " +
                                     std::to_string(expected));
}

// The table at the front of `bytes` and its size.
Result<size_t> ParseTable(std::span<const uint8_t> bytes, size_t levels,
                          kernels::AnsFrequencies* frequencies) {
  if (bytes.size() < 2) return Short(bytes.size(), 2, "the symbols that occur");
  const size_t first = bytes[0], last = bytes[1];
  if (first > last || last >= levels) {
    return Status(Code::kMismatch, "entropy-coded row of symbols " + std::to_string(first) +
                                       " to " + std::to_string(last) + ", expected some below " +
                                       std::to_string(levels));
  }
  const size_t size = 2 + 2 * (last - first);
  if (bytes.size() < size) return Short(bytes.size(), size, "a table");
  uint32_t sum = 0;
  for (size_t s = first; s < last; ++s) {
    (*frequencies)[s] = NumberAt<uint16_t>(bytes.subspan(2), s - first);
    sum += (*frequencies)[s];
  }
  if (sum >= kSlots || (first < last && (*frequencies)[first] == 0)) {
    return Status(Code::kMismatch, "entropy-coded row with frequencies that sum to " +
                                       std::to_string(sum) + ", expected less than " +
                                       std::to_string(kSlots) + ", the first of them above 0");
  }
  (*frequencies)[last] = static_cast<uint16_t>(kSlots - sum);
  return size;
}

}  // namespace

void AppendAnsRow(std::span<const uint8_t> symbols, size_t block, std::vector<uint8_t>* out) {
  const kernels::AnsFrequencies frequencies =
      kernels::FrequenciesOf(kernels::CountSymbols(symbols.data(), symbols.size()));
  const auto occurs = [](uint16_t f) { return f != 0; };
  const auto first = std::find_if(frequencies.begin(), frequencies.end(), occurs);
  const auto last = std::find_if(frequencies.rbegin(), frequencies.rend(), occurs).base() - 1;
  out->push_back(static_cast<uint8_t>(first - frequencies.begin()));
  out->push_back(static_cast<uint8_t>(last - frequencies.begin()));
  for (auto f = first; f != last; ++f) AppendNumber(*f, out);

  const kernels::AnsEncoder encoder(frequencies);
  size_t end_at = out->size();
  const size_t blocks = (symbols.size() + block - 1) / block;
  out->resize(end_at + blocks * sizeof(uint32_t));
  const size_t begin = out->size();
  std::vector<uint8_t> room(kernels::MaxAnsBytes(std::min(block, symbols.size())));
  for (size_t at = 0; at < symbols.size(); at += block, end_at += sizeof(uint32_t)) {
    const size_t n = std::min(block, symbols.size() - at);
    const std::span<const uint8_t> coded = encoder.Encode(symbols.data() + at, n, room);
    out->insert(out->end(), coded.begin(), coded.end());
    const auto end = static_cast<uint32_t>(out->size() - begin);
    std::memcpy(out->data() + end_at, &end, sizeof end);
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
  if (bytes.size() < begin) return Short(bytes.size(), begin, "a table and directory");
  row.directory_ = bytes.subspan(*table, begin - *table);
  const size_t end = blocks == 0 ? 0 : NumberAt<uint32_t>(row.directory_, blocks - 1);
  if (bytes.size() - begin < end) return Short(bytes.size() - begin, end, "blocks");
  row.blocks_ = bytes.subspan(begin, end);
  row.size_ = begin + end;
  return row;
}

Status AnsRow::Decode(const kernels::AnsDecoder& decoder, uint64_t index, uint8_t* symbols) const {
  const size_t begin = index == 0 ? 0 : NumberAt<uint32_t>(directory_, index - 1);
  const size_t end = NumberAt<uint32_t>(directory_, index);
  const size_t n = std::min<uint64_t>(block_, count_ - index * block_);
  if (begin <= end && end <= blocks_.size() &&
      decoder.Decode(blocks_.subspan(begin, end - begin), n, symbols)) {
    return Ok();
  }
  return Status(Code::kMismatch, "bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                                     " of an entropy-coded row are no block of " +
                                     std::to_string(n) + " symbols");
}

}  // namespace tern::codec
