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
// A row of split integers (split_row.h) follows.
constexpr uint8_t kSplit = 2;
constexpr std::string_view kStoredOrCoded = "0 (stored) or 1 (entropy-coded)";

// Symbols per block; each block adds about 30 bytes. Codes have large blocks, because they are
// always read whole; sums have small ones, because they are read in ranges.
constexpr size_t kCodeBlock = 16384;
constexpr size_t kSumBlock = 4096;
// Larger sums must be split, because every symbol, at most twice the largest sum, must fit in a
// byte.
constexpr int kMaxUnsplitSum = 127;
// Codes of so many bits, and sums of them, are never split, because they have few symbols.
constexpr int kUnsplitCodeBits = 2;
// A sum is decoded so many elements at a time.
constexpr size_t kRange = kernels::kAnsMaxBlocks * kSumBlock;

// Appends the smaller of the row that append_row() appends and the bytes `stored`, after the byte
// that names the format.
template <class AppendRow>
void AppendSmaller(uint8_t row_format, const AppendRow& append_row, std::span<const uint8_t> stored,
                   std::vector<uint8_t>* out) {
  const size_t begin = out->size();
  out->push_back(row_format);
  append_row();
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

// Some blocks of a row, and the elements of them to use.
struct BlockRange {
  uint64_t block;  // the first of them
  size_t num_blocks;
  uint64_t begin;  // the first element of the blocks
  size_t size;     // elements of the blocks
  size_t skipped;  // the elements before the first to use
  size_t num_used;
};

// Calls visit(BlockRange) for elements [first, first + n) of a row of `count` elements, in order,
// until it returns an error.
template <class Visit>
Status ForBlockRanges(uint64_t count, uint64_t first, uint64_t n, const Visit& visit) {
  for (uint64_t at = first, end = first + n; at < end;) {
    BlockRange range{};
    range.block = at / kSumBlock;
    range.num_blocks =
        std::min<uint64_t>((end + kSumBlock - 1) / kSumBlock - range.block, kernels::kAnsMaxBlocks);
    range.begin = range.block * kSumBlock;
    range.size = std::min<uint64_t>(range.num_blocks * kSumBlock, count - range.begin);
    range.skipped = at - range.begin;
    range.num_used = std::min(end, range.begin + range.size) - at;
    TERN_RETURN_IF_ERROR(visit(range));
    at += range.num_used;
  }
  return Ok();
}

// Decodes all of a split row of `bits` bits with the blocks of a code. Returns its planes, which
// refer to `scratch`.
Result<std::span<uint8_t>> DecodePlanes(const SplitRow& row, uint64_t count, int bits,
                                        Scratch* scratch) {
  const kernels::AnsTable table(row.frequencies());
  const size_t plane_bytes = kernels::PlaneBytes(count);
  const std::span<uint8_t> planes = scratch->GetBuffer(static_cast<size_t>(bits) * plane_bytes);
  const uint64_t num_blocks = (count + kCodeBlock - 1) / kCodeBlock;
  const size_t blocks_per_call = std::min<uint64_t>(kernels::kAnsMaxBlocks, num_blocks);
  const auto symbols = std::make_unique_for_overwrite<uint8_t[]>(blocks_per_call * kCodeBlock);
  for (uint64_t block = 0; block < num_blocks; block += blocks_per_call) {
    TERN_RETURN_IF_ERROR(
        row.Decode(table, block, std::min<uint64_t>(blocks_per_call, num_blocks - block),
                   plane_bytes, symbols.get(), planes.data() + block * kCodeBlock / 8));
  }
  return planes;
}

// Appends a sum up to `max_sum`, split or not, with blocks of `block_size` elements.
void AppendSumRow(std::span<const uint8_t> planes, uint64_t count, int max_sum, bool is_split,
                  size_t block_size, std::vector<uint8_t>* out) {
  if (count == 0) return;
  const int bits = kernels::SumBits(max_sum);
  if (is_split) {
    const auto append_row = [&] {
      AppendSplitRow(planes, count, ChooseSplit(planes, count, bits), block_size, out);
    };
    return AppendSmaller(kSplit, append_row, planes, out);
  }
  const auto make_symbols = [&](uint64_t first, size_t n, uint8_t* to) {
    kernels::SymbolsOfPlanes(planes.data(), count, bits, max_sum, first, n, to);
  };
  const auto append_row = [&] {
    AppendAnsRow(count, block_size, CountsOfPlanes(planes, count, bits, max_sum), make_symbols,
                 out);
  };
  AppendSmaller(kEntropyCoded, append_row, planes, out);
}

}  // namespace

void EntropyWire::AppendCode(uint64_t count, const kernels::AnsCounts& counts,
                             const AnsSource& source, std::span<const uint8_t> stored,
                             std::vector<uint8_t>* out) {
  const auto append_row = [&] { AppendAnsRow(count, kCodeBlock, counts, source, out); };
  AppendSmaller(kEntropyCoded, append_row, stored, out);
}

void EntropyWire::AppendCodeOfPlanes(std::span<const uint8_t> planes, uint64_t count,
                                     std::vector<uint8_t>* out) const {
  const SplitCounts chosen = ChooseSplit(planes, count, code_bits());
  if (chosen.split.low_bits > 0) {
    const auto append_row = [&] { AppendSplitRow(planes, count, chosen, kCodeBlock, out); };
    return AppendSmaller(kSplit, append_row, planes, out);
  }
  const auto make_symbols = [&](uint64_t first, size_t n, uint8_t* symbols) {
    kernels::SymbolsOfPlanes(planes.data(), count, code_bits(), MaxSum(1), first, n, symbols);
  };
  // Symbols begin at the smallest code, which is the smallest number of so many bits plus 1.
  kernels::AnsCounts counts{};
  std::copy(chosen.counts.begin() + 1, chosen.counts.end(), counts.begin());
  AppendCode(count, counts, make_symbols, planes, out);
}

size_t EntropyWire::MaxCodeSize(uint64_t count) const {
  return count == 0 ? 0 : 1 + MaxStoredSize(count);
}

Result<ParsedCode> EntropyWire::Parse(std::span<const uint8_t> bytes, uint64_t count,
                                      Scratch* scratch) const {
  if (count == 0) return ParsedCode{};
  const bool may_be_split = code_bits() > kUnsplitCodeBits;
  if (bytes.empty() || bytes[0] > (may_be_split ? kSplit : kEntropyCoded)) {
    return BadFormatError(
        bytes, count, may_be_split ? "0 (stored), 1 (entropy-coded) or 2 (split)" : kStoredOrCoded);
  }
  if (bytes[0] == kStored) {
    Result<ParsedCode> code = ParseStored(bytes.subspan(1), count, scratch);
    if (code.ok()) ++code->size;
    return code;
  }
  if (bytes[0] == kSplit) return ParseSplitCode(bytes, count, scratch);
  const size_t symbol_end = 2 * static_cast<size_t>(MaxSum(1)) + 1;
  const Result<AnsRow> row = AnsRow::Parse(bytes.subspan(1), count, kCodeBlock, symbol_end);
  if (!row.ok()) return row.status();
  TERN_RETURN_IF_ERROR(CheckRowSize(row->size(), MaxStoredSize(count)));
  Result<ParsedCode> code = DecodeCodeRow(*row, count, scratch);
  if (code.ok()) code->size = 1 + row->size();
  return code;
}

Result<ParsedCode> EntropyWire::ParseSplitCode(std::span<const uint8_t> bytes, uint64_t count,
                                               Scratch* scratch) const {
  const Result<SplitRow> row = SplitRow::Parse(bytes.subspan(1), count, kCodeBlock, code_bits());
  if (!row.ok()) return row.status();
  TERN_RETURN_IF_ERROR(CheckRowSize(row->size(), MaxStoredSize(count)));
  const Result<std::span<uint8_t>> planes = DecodePlanes(*row, count, code_bits(), scratch);
  if (!planes.ok()) return planes.status();
  const size_t low_bytes = planes->size() - kernels::PlaneBytes(count);
  return ParsedCode{planes->first(low_bytes), planes->subspan(low_bytes), 1 + row->size()};
}

void EntropyWire::AppendSum(std::span<const uint8_t> planes, uint64_t count, int contributors,
                            std::vector<uint8_t>* out) const {
  AppendSumRow(planes, count, MaxSum(contributors), SplitsSums(contributors), kSumBlock, out);
}

void EntropyWire::AppendPartial(std::span<const uint8_t> planes, uint64_t count, int contributors,
                                std::vector<uint8_t>* out) const {
  AppendSumRow(planes, count, MaxSum(contributors), SplitsSums(contributors), kCodeBlock, out);
}

bool EntropyWire::SplitsSums(int contributors) const {
  return code_bits() > kUnsplitCodeBits || MaxSum(contributors) > kMaxUnsplitSum;
}

size_t EntropyWire::MaxSumSize(uint64_t count, int contributors) const {
  return count == 0 ? 0 : 1 + IntegerWire::MaxSumSize(count, contributors);
}

Result<size_t> EntropyWire::SumSize(std::span<const uint8_t> bytes, uint64_t count,
                                    int contributors) const {
  if (count == 0) return size_t{0};
  if (!bytes.empty() && bytes[0] == kStored) {
    Result<size_t> planes_size = IntegerWire::SumSize(bytes.subspan(1), count, contributors);
    if (!planes_size.ok()) return planes_size;
    return 1 + *planes_size;
  }
  const auto size_of = [](const auto& row) -> Result<size_t> {
    if (!row.ok()) return row.status();
    return 1 + row->size();
  };
  return SplitsSums(contributors) ? size_of(ParseSplitSum(bytes, count, contributors, kSumBlock))
                                  : size_of(ParseSumRow(bytes, count, contributors, kSumBlock));
}

Status EntropyWire::Decode(std::span<const uint8_t> sum, uint64_t count, int contributors,
                           float scaler, uint64_t first, uint64_t n, float* mean) const {
  if (IsStored(sum, count)) {
    return IntegerWire::Decode(PlanesOf(sum, count), count, contributors, scaler, first, n, mean);
  }
  const auto copy = [&](uint64_t at, std::span<const float> means) {
    std::copy(means.begin(), means.end(), mean + (at - first));
  };
  return DecodeCodedSum(sum, count, contributors, scaler, first, n, copy);
}

Status EntropyWire::DecodeInBlocks(std::span<const uint8_t> sum, uint64_t count, int contributors,
                                   float scaler, const Codec::BlockVisitor& use) const {
  if (IsStored(sum, count)) {
    return IntegerWire::DecodeInBlocks(PlanesOf(sum, count), count, contributors, scaler, use);
  }
  return DecodeCodedSum(sum, count, contributors, scaler, 0, count, use);
}

Result<IntegerWire::PlanesOfPartial> EntropyWire::DecodePartial(std::span<const uint8_t> bytes,
                                                                uint64_t count, int contributors,
                                                                Scratch* scratch) const {
  if (IsStored(bytes, count)) {
    Result<PlanesOfPartial> stored =
        IntegerWire::DecodePartial(PlanesOf(bytes, count), count, contributors, scratch);
    if (stored.ok() && count != 0) ++stored->size;
    return stored;
  }
  const int max_sum = MaxSum(contributors), bits = kernels::SumBits(max_sum);
  if (SplitsSums(contributors)) {
    const Result<SplitRow> row = ParseSplitSum(bytes, count, contributors, kCodeBlock);
    if (!row.ok()) return row.status();
    const Result<std::span<uint8_t>> planes = DecodePlanes(*row, count, bits, scratch);
    if (!planes.ok()) return planes.status();
    return PlanesOfPartial{*planes, 1 + row->size()};
  }
  const Result<AnsRow> row = ParseSumRow(bytes, count, contributors, kCodeBlock);
  if (!row.ok()) return row.status();
  const size_t plane_bytes = kernels::PlaneBytes(count);
  const std::span<uint8_t> planes = scratch->GetBuffer(static_cast<size_t>(bits) * plane_bytes);
  TERN_RETURN_IF_ERROR(
      VisitSymbols(*row, count, [&](uint64_t first, std::span<const uint8_t> symbols) {
        kernels::PlanesOfSymbols(symbols.data(), symbols.size(), bits, max_sum, plane_bytes,
                                 planes.data() + first / 8);
      }));
  return PlanesOfPartial{planes, 1 + row->size()};
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

Status EntropyWire::BadFormatError(std::span<const uint8_t> bytes, uint64_t count,
                                   std::string_view expected) const {
  if (bytes.empty()) {
    return Status(Code::kMismatch,
                  Cat(name(), " code is empty, expected the code of ", count, " elements"));
  }
  return Status(Code::kMismatch, Cat(name(), " form is ", int{bytes[0]}, ", expected ", expected));
}

Status EntropyWire::CheckRowSize(size_t size, size_t max_stored) const {
  if (1 + size <= max_stored) return Ok();
  return Status(Code::kMismatch, Cat(name(), " row of ", size, " bytes, expected less than the ",
                                     max_stored, " of the stored form"));
}

Result<AnsRow> EntropyWire::ParseSumRow(std::span<const uint8_t> sum, uint64_t count,
                                        int contributors, size_t block_size) const {
  if (sum.empty() || sum[0] != kEntropyCoded) return BadFormatError(sum, count, kStoredOrCoded);
  const size_t symbol_end = 2 * static_cast<size_t>(MaxSum(contributors)) + 1;
  Result<AnsRow> row = AnsRow::Parse(sum.subspan(1), count, block_size, symbol_end);
  if (!row.ok()) return row;
  TERN_RETURN_IF_ERROR(CheckRowSize(row->size(), IntegerWire::MaxSumSize(count, contributors)));
  return row;
}

Result<SplitRow> EntropyWire::ParseSplitSum(std::span<const uint8_t> sum, uint64_t count,
                                            int contributors, size_t block_size) const {
  if (sum.empty() || sum[0] != kSplit) return BadFormatError(sum, count, "0 (stored) or 2 (split)");
  Result<SplitRow> row =
      SplitRow::Parse(sum.subspan(1), count, block_size, kernels::SumBits(MaxSum(contributors)));
  if (!row.ok()) return row;
  TERN_RETURN_IF_ERROR(CheckRowSize(row->size(), IntegerWire::MaxSumSize(count, contributors)));
  return row;
}

Status EntropyWire::DecodeCodedSum(std::span<const uint8_t> sum, uint64_t count, int contributors,
                                   float scaler, uint64_t first, uint64_t n,
                                   const Codec::BlockVisitor& use) const {
  return SplitsSums(contributors) ? DecodeSplitSum(sum, count, contributors, scaler, first, n, use)
                                  : DecodeSumRow(sum, count, contributors, scaler, first, n, use);
}

Status EntropyWire::DecodeSumRow(std::span<const uint8_t> sum, uint64_t count, int contributors,
                                 float scaler, uint64_t first, uint64_t n,
                                 const Codec::BlockVisitor& use) const {
  Result<AnsRow> row = ParseSumRow(sum, count, contributors, kSumBlock);
  if (!row.ok()) return row.status();
  TERN_RETURN_IF_ERROR(CheckSumAndRange(name(), sum, 1 + row->size(), count, first, n));
  const kernels::AnsTable table(row->frequencies());
  std::array<uint8_t, kRange> symbols;
  std::array<float, kRange> means;
  return ForBlockRanges(count, first, n, [&](const BlockRange& range) {
    TERN_RETURN_IF_ERROR(row->Decode(table, range.block, range.num_blocks, symbols.data()));
    kernels::MeansOfSymbols(symbols.data() + range.skipped, range.num_used, MaxSum(contributors),
                            scaler, means.data());
    use(range.begin + range.skipped, std::span(means).first(range.num_used));
    return Ok();
  });
}

Status EntropyWire::DecodeSplitSum(std::span<const uint8_t> sum, uint64_t count, int contributors,
                                   float scaler, uint64_t first, uint64_t n,
                                   const Codec::BlockVisitor& use) const {
  Result<SplitRow> row = ParseSplitSum(sum, count, contributors, kSumBlock);
  if (!row.ok()) return row.status();
  TERN_RETURN_IF_ERROR(CheckSumAndRange(name(), sum, 1 + row->size(), count, first, n));
  const kernels::AnsTable table(row->frequencies());
  const kernels::MeanTable means(MaxSum(contributors), scaler);
  std::array<uint8_t, kRange> symbols;
  std::array<uint8_t, kernels::kMaxSumBits * kRange / 8> planes;
  // Small parts, so that the processor runs `use` of one part while it loads the next part.
  std::array<float, 256> part;
  return ForBlockRanges(count, first, n, [&](const BlockRange& range) {
    TERN_RETURN_IF_ERROR(row->Decode(table, range.block, range.num_blocks,
                                     kernels::PlaneBytes(range.size), symbols.data(),
                                     planes.data()));
    for (size_t at = range.skipped, end = at + range.num_used; at < end; at += part.size()) {
      const size_t part_size = std::min(part.size(), end - at);
      if (!kernels::DecodeMean(planes.data(), range.size, means, at, part_size, part.data()))
        return SumTooLargeError(name(), contributors);
      use(range.begin + at, std::span(part).first(part_size));
    }
    return Ok();
  });
}

}  // namespace tern::codec
