// Writes, checks and reads the bytes of entropy-coded integer codes and of their sums.
#include "common/codec/entropy_wire.h"

#include <algorithm>
#include <array>
#include <memory>

#include "common/base/text.h"
#include "common/codec/float_sum.h"
#include "kernels/codes/ans_symbols.h"
#include "kernels/codes/planes.h"

namespace tern::codec {
namespace {

// The first byte of every non-empty code or sum, which names the format of the bytes after it.
constexpr uint8_t kStored = 0;
// A row of symbols (ans_row.h) follows. The symbol of an integer k in [-m, m] is k + m, where m is
// the largest code, or the largest sum of the contributors' codes.
constexpr uint8_t kEntropyCoded = 1;

// Symbols per block; each block adds about 30 bytes. Codes have large blocks, because they are
// always read whole; sums have small ones, because they are read in ranges.
constexpr size_t kCodeBlock = 16384;
constexpr size_t kSumBlock = 4096;
// Larger sums are always stored, because every symbol, at most twice the largest sum, must fit in a
// byte.
constexpr int kMaxCodedSum = 127;

// Appends the smaller of the entropy-coded row of symbols and the bytes `stored`, after the byte
// that names the format.
void AppendSmaller(uint64_t count, size_t block_size, const kernels::AnsCounts& counts,
                   const AnsSource& source, std::span<const uint8_t> stored,
                   std::vector<uint8_t>* out) {
  const size_t begin = out->size();
  out->push_back(kEntropyCoded);
  AppendAnsRow(count, block_size, counts, source, out);
  if (out->size() - begin <= stored.size()) return;
  out->resize(begin);
  out->push_back(kStored);
  out->insert(out->end(), stored.begin(), stored.end());
}

bool IsStored(std::span<const uint8_t> sum, uint64_t count) {
  return count == 0 || (!sum.empty() && sum[0] == kStored);
}
// The planes of a sum for which IsStored is true. A sum of no elements has no byte at all.
std::span<const uint8_t> PlanesOf(std::span<const uint8_t> sum, uint64_t count) {
  return sum.subspan(count == 0 ? 0 : 1);
}

}  // namespace

kernels::AnsCounts EntropyWire::CountsOfPlanes(std::span<const uint8_t> planes, uint64_t count,
                                               int max_sum) {
  std::array<uint8_t, kernels::kAnsMaxBlocks * kSumBlock> symbols;
  kernels::AnsCounts counts{};
  for (uint64_t at = 0; at < count; at += symbols.size()) {
    const size_t n = std::min<uint64_t>(symbols.size(), count - at);
    kernels::SymbolsOfSum(planes.data(), count, max_sum, at, n, symbols.data());
    const kernels::AnsCounts range_counts = kernels::CountSymbols(symbols.data(), n);
    for (int s = 0; s <= 2 * max_sum; ++s) counts[s] += range_counts[s];
  }
  return counts;
}

void EntropyWire::AppendCode(uint64_t count, const kernels::AnsCounts& counts,
                             const AnsSource& source, std::span<const uint8_t> stored,
                             std::vector<uint8_t>* out) {
  AppendSmaller(count, kCodeBlock, counts, source, stored, out);
}

size_t EntropyWire::MaxCodeSize(uint64_t count) const {
  return count == 0 ? 0 : 1 + MaxStoredSize(count);
}

Result<ParsedCode> EntropyWire::Parse(std::span<const uint8_t> bytes, uint64_t count,
                                      Scratch* scratch) const {
  if (count == 0) return ParsedCode{};
  if (bytes.empty() || bytes[0] > kEntropyCoded) return BadFormatError(bytes, count);
  if (bytes[0] == kStored) {
    Result<ParsedCode> code = ParseStored(bytes.subspan(1), count, scratch);
    if (code.ok()) ++code->size;
    return code;
  }
  const size_t symbol_end = 2 * static_cast<size_t>(MaxSum(1)) + 1;
  const Result<AnsRow> row = ParseRow(bytes, count, kCodeBlock, symbol_end, MaxStoredSize(count));
  if (!row.ok()) return row.status();
  Result<ParsedCode> code = DecodeCodeRow(*row, count, scratch);
  if (code.ok()) code->size = 1 + row->size();
  return code;
}

void EntropyWire::AppendSum(std::span<const uint8_t> planes, uint64_t count, int contributors,
                            std::vector<uint8_t>* out) const {
  if (count == 0) return;
  if (const int max_sum = MaxSum(contributors); max_sum <= kMaxCodedSum) {
    const auto make_symbols = [&](uint64_t first, size_t n, uint8_t* to) {
      kernels::SymbolsOfSum(planes.data(), count, max_sum, first, n, to);
    };
    return AppendSmaller(count, kSumBlock, CountsOfPlanes(planes, count, max_sum), make_symbols,
                         planes, out);
  }
  out->push_back(kStored);
  IntegerWire::AppendSum(planes, count, contributors, out);
}

size_t EntropyWire::MaxSumSize(uint64_t count, int contributors) const {
  return count == 0 ? 0 : 1 + IntegerWire::MaxSumSize(count, contributors);
}

Result<size_t> EntropyWire::SumSize(std::span<const uint8_t> bytes, uint64_t count,
                                    int contributors) const {
  if (count == 0) return size_t{0};
  if (bytes.empty() || bytes[0] > kEntropyCoded) return BadFormatError(bytes, count);
  if (bytes[0] == kStored) {
    Result<size_t> planes_size = IntegerWire::SumSize(bytes.subspan(1), count, contributors);
    if (!planes_size.ok()) return planes_size;
    return 1 + *planes_size;
  }
  Result<AnsRow> row = ParseSumRow(bytes, count, contributors);
  if (!row.ok()) return row.status();
  return 1 + row->size();
}

Status EntropyWire::Decode(std::span<const uint8_t> sum, uint64_t count, int contributors,
                           float scaler, uint64_t first, uint64_t n, float* mean) const {
  if (IsStored(sum, count)) {
    return IntegerWire::Decode(PlanesOf(sum, count), count, contributors, scaler, first, n, mean);
  }
  const auto copy = [&](uint64_t at, std::span<const float> means) {
    std::copy(means.begin(), means.end(), mean + (at - first));
  };
  return DecodeSumRow(sum, count, contributors, scaler, first, n, copy);
}

Status EntropyWire::DecodeInBlocks(std::span<const uint8_t> sum, uint64_t count, int contributors,
                                   float scaler, const Codec::BlockVisitor& use) const {
  if (IsStored(sum, count)) {
    return IntegerWire::DecodeInBlocks(PlanesOf(sum, count), count, contributors, scaler, use);
  }
  return DecodeSumRow(sum, count, contributors, scaler, 0, count, use);
}

Status EntropyWire::VisitSymbols(const AnsRow& row, uint64_t count, const SymbolVisitor& use) {
  const kernels::AnsTable table(row.frequencies());
  const uint64_t num_blocks = (count + kCodeBlock - 1) / kCodeBlock;
  const size_t blocks_per_call = std::min<uint64_t>(kernels::kAnsMaxBlocks, num_blocks);
  const auto symbols = std::make_unique_for_overwrite<uint8_t[]>(blocks_per_call * kCodeBlock);
  for (uint64_t block = 0; block < num_blocks; block += blocks_per_call) {
    const uint64_t at = block * kCodeBlock;
    TERN_RETURN_IF_ERROR(row.Decode(
        table, block, std::min<uint64_t>(blocks_per_call, num_blocks - block), symbols.get()));
    use(at, {symbols.get(), std::min<uint64_t>(blocks_per_call * kCodeBlock, count - at)});
  }
  return Ok();
}

Status EntropyWire::BadFormatError(std::span<const uint8_t> bytes, uint64_t count) const {
  if (bytes.empty()) {
    return Status(Code::kMismatch,
                  Cat(name(), " code is empty, expected the code of ", count, " elements"));
  }
  return Status(Code::kMismatch, Cat(name(), " form is ", int{bytes[0]},
                                     ", expected 0 (stored) or 1 (entropy-coded)"));
}

Result<AnsRow> EntropyWire::ParseRow(std::span<const uint8_t> bytes, uint64_t count,
                                     size_t block_size, size_t symbol_end,
                                     size_t max_stored) const {
  Result<AnsRow> row = AnsRow::Parse(bytes.subspan(1), count, block_size, symbol_end);
  if (!row.ok() || 1 + row->size() <= max_stored) return row;
  return Status(Code::kMismatch,
                Cat(name(), " row of ", row->size(), " bytes, expected less than the ", max_stored,
                    " of the stored form"));
}

Result<AnsRow> EntropyWire::ParseSumRow(std::span<const uint8_t> sum, uint64_t count,
                                        int contributors) const {
  const int max_sum = MaxSum(contributors);
  if (max_sum > kMaxCodedSum) {
    return Status(Code::kMismatch, Cat(name(), " sum of ", contributors,
                                       " contributors is entropy-coded, expected it stored as "
                                       "planes"));
  }
  const size_t symbol_end = 2 * static_cast<size_t>(max_sum) + 1;
  return ParseRow(sum, count, kSumBlock, symbol_end, IntegerWire::MaxSumSize(count, contributors));
}

Status EntropyWire::DecodeSumRow(std::span<const uint8_t> sum, uint64_t count, int contributors,
                                 float scaler, uint64_t first, uint64_t n,
                                 const Codec::BlockVisitor& use) const {
  if (sum.empty() || sum[0] != kEntropyCoded) return BadFormatError(sum, count);
  Result<AnsRow> row = ParseSumRow(sum, count, contributors);
  if (!row.ok()) return row.status();
  TERN_RETURN_IF_ERROR(CheckSumAndRange(name(), sum, 1 + row->size(), count, first, n));
  const kernels::AnsTable table(row->frequencies());
  std::array<uint8_t, kernels::kAnsMaxBlocks * kSumBlock> symbols;
  std::array<float, kernels::kAnsMaxBlocks * kSumBlock> means;
  const uint64_t end = first + n;
  for (uint64_t at = first; at < end;) {
    const uint64_t block = at / kSumBlock;
    const uint64_t num_blocks =
        std::min<uint64_t>((end + kSumBlock - 1) / kSumBlock - block, kernels::kAnsMaxBlocks);
    TERN_RETURN_IF_ERROR(row->Decode(table, block, num_blocks, symbols.data()));
    const uint64_t num_decoded = std::min(end, (block + num_blocks) * kSumBlock) - at;
    kernels::MeansOfSymbols(symbols.data() + at % kSumBlock, num_decoded, MaxSum(contributors),
                            scaler, means.data());
    use(at, std::span(means).first(num_decoded));
    at += num_decoded;
  }
  return Ok();
}

}  // namespace tern::codec
