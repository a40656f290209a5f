// The wire format ternary_ans: TernGrad's codes (Wen et al. 2017) and the sums of the codes. Each
// is in the smaller of two formats: stored (the bytes of the codec ternary), or entropy-coded by
// rANS (Duda 2013; ans_row.h). Sums of more than 127 contributors are always stored.
// docs/ALGORITHMS.md, section 5, has the sizes.
#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "common/codec/ans_row.h"
#include "common/codec/float_sum.h"
#include "common/codec/mask_signs.h"
#include "common/codec/integer_wire.h"
#include "kernels/codes/ans_symbols.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/ternary.h"

namespace tern::codec {
namespace {

// The first byte of every non-empty code or sum, which names the format of the bytes after it.
constexpr uint8_t kStored = 0;
// A row of symbols (ans_row.h) follows. The symbol of an integer k in [-N, N] is k + N; N is 1 for
// a code, and the number of contributors for a sum.
constexpr uint8_t kEntropyCoded = 1;

// Symbols per block; each block adds about 30 bytes. Codes have large blocks, because they are
// always read whole; sums have small ones, because they are read in ranges.
constexpr size_t kCodeBlock = 16384;
constexpr size_t kSumBlock = 4096;
// Sums of more contributors are always stored, because every symbol, at most 2 N, must fit in a
// byte.
constexpr int kMaxContributors = 127;

// Counts the symbols of a code. `mask`: one bit per element, 1 if the element's code is not 0;
// `signs`: one bit per element whose code is not 0, 1 if the code is negative.
kernels::AnsCounts CountsOfCode(const uint8_t* mask, const uint8_t* signs, uint64_t count) {
  const size_t num_nonzeros = kernels::CountOnes(mask, count);
  const size_t num_negative = kernels::CountOnes(signs, num_nonzeros);
  return {num_negative, count - num_nonzeros, num_nonzeros - num_negative};
}

// Counts the symbols of a sum. Converts one range of the sum at a time, so that the symbols stay in
// the processor's cache.
kernels::AnsCounts CountsOfSum(std::span<const uint8_t> planes, uint64_t count, int contributors) {
  std::array<uint8_t, kernels::kAnsMaxBlocks * kSumBlock> symbols;
  kernels::AnsCounts counts{};
  for (uint64_t at = 0; at < count; at += symbols.size()) {
    const size_t n = std::min<uint64_t>(symbols.size(), count - at);
    kernels::SymbolsOfSum(planes.data(), count, contributors, at, n, symbols.data());
    const kernels::AnsCounts range_counts = kernels::CountSymbols(symbols.data(), n);
    for (int s = 0; s <= 2 * contributors; ++s) counts[s] += range_counts[s];
  }
  return counts;
}

Status BadFormatError(std::span<const uint8_t> bytes, uint64_t count) {
  if (bytes.empty()) {
    return Status(Code::kMismatch, "ternary_ans code is empty, expected the code of " +
                                       std::to_string(count) + " elements");
  }
  return Status(Code::kMismatch, "ternary_ans form is " + std::to_string(bytes[0]) +
                                     ", expected 0 (stored) or 1 (entropy-coded)");
}

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

// Parses the row after the first byte, kEntropyCoded. Refuses a row of at least `max_stored` bytes,
// the most bytes of the stored format, because AppendSmaller never writes such a row.
Result<AnsRow> ParseRow(std::span<const uint8_t> bytes, uint64_t count, size_t block_size,
                        size_t symbol_end, size_t max_stored) {
  Result<AnsRow> row = AnsRow::Parse(bytes.subspan(1), count, block_size, symbol_end);
  if (!row.ok() || 1 + row->size() <= max_stored) return row;
  return Status(Code::kMismatch, "ternary_ans row of " + std::to_string(row->size()) +
                                     " bytes, expected less than the " +
                                     std::to_string(max_stored) + " of the stored form");
}

class Ans : public IntegerWire {
 public:
  std::string_view name() const override { return "ternary_ans"; }

  void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    if (segment.count == 0) return;
    std::vector<uint8_t> stored;
    AppendMaskSigns(g, segment, prepared, noise, &stored);
    const std::span<const uint8_t> code(stored);
    const uint8_t* const mask = code.data();
    const std::span<const uint8_t> signs = code.subspan(kernels::PlaneBytes(segment.count));
    size_t next_sign = 0;
    const auto make_symbols = [&](uint64_t first, size_t n, uint8_t* to) {
      next_sign =
          kernels::SymbolsOfCode(mask + first / 8, n, signs.data(), signs.size(), next_sign, to);
    };
    AppendSmaller(segment.count, kCodeBlock, CountsOfCode(mask, signs.data(), segment.count),
                  make_symbols, code, out);
  }

  size_t MaxCodeSize(uint64_t count) const override {
    return count == 0 ? 0 : 1 + 2 * kernels::PlaneBytes(count);
  }

  Result<ParsedCode> Parse(std::span<const uint8_t> bytes, uint64_t count,
                           Scratch* scratch) const override {
    if (count == 0) return ParsedCode{};
    if (bytes.empty() || bytes[0] > kEntropyCoded) return BadFormatError(bytes, count);
    if (bytes[0] == kStored) {
      Result<ParsedCode> code = ParseMaskSigns(bytes.subspan(1), count, scratch);
      if (code.ok()) ++code->size;
      return code;
    }
    Result<AnsRow> row = ParseRow(bytes, count, kCodeBlock, 3, 2 * kernels::PlaneBytes(count));
    if (!row.ok()) return row.status();
    return DecodeCodeRow(*row, count, scratch);
  }

  bool sums_are_planes() const override { return false; }
  void AppendSum(std::span<const uint8_t> planes, uint64_t count, int contributors,
                 std::vector<uint8_t>* out) const override {
    if (count == 0) return;
    if (contributors <= kMaxContributors) {
      const auto make_symbols = [&](uint64_t first, size_t n, uint8_t* to) {
        kernels::SymbolsOfSum(planes.data(), count, contributors, first, n, to);
      };
      return AppendSmaller(count, kSumBlock, CountsOfSum(planes, count, contributors), make_symbols,
                           planes, out);
    }
    out->push_back(kStored);
    IntegerWire::AppendSum(planes, count, contributors, out);
  }

  size_t MaxSumSize(uint64_t count, int contributors) const override {
    return count == 0 ? 0 : 1 + IntegerWire::MaxSumSize(count, contributors);
  }

  Result<size_t> SumSize(std::span<const uint8_t> bytes, uint64_t count,
                         int contributors) const override {
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

  Status Decode(std::span<const uint8_t> sum, uint64_t count, int contributors, float scaler,
                uint64_t first, uint64_t n, float* mean) const override {
    if (IsStored(sum, count)) {
      return IntegerWire::Decode(WithoutFormatByte(sum), count, contributors, scaler, first, n,
                                 mean);
    }
    const auto copy = [&](uint64_t at, std::span<const float> means) {
      std::copy(means.begin(), means.end(), mean + (at - first));
    };
    return DecodeSumRow(sum, count, contributors, scaler, first, n, copy);
  }
  Status DecodeInBlocks(std::span<const uint8_t> sum, uint64_t count, int contributors,
                        float scaler, const Codec::BlockVisitor& use) const override {
    if (IsStored(sum, count)) {
      return IntegerWire::DecodeInBlocks(WithoutFormatByte(sum), count, contributors, scaler, use);
    }
    return DecodeSumRow(sum, count, contributors, scaler, 0, count, use);
  }

 private:
  static Result<AnsRow> ParseSumRow(std::span<const uint8_t> sum, uint64_t count,
                                    int contributors) {
    if (contributors > kMaxContributors) {
      return Status(Code::kMismatch,
                    "ternary_ans sum of " + std::to_string(contributors) +
                        " contributors is entropy-coded, expected it stored as planes");
    }
    const size_t symbol_end = 2 * static_cast<size_t>(contributors) + 1;
    return ParseRow(sum, count, kSumBlock, symbol_end,
                    kernels::SumBits(contributors) * kernels::PlaneBytes(count));
  }

  static Result<ParsedCode> DecodeCodeRow(const AnsRow& row, uint64_t count, Scratch* scratch) {
    const kernels::AnsTable table(row.frequencies());
    const size_t plane_bytes = kernels::PlaneBytes(count);
    // CodeOfSymbols may write 8 bytes beyond the signs.
    const std::span<uint8_t> code = scratch->GetBuffer(3 * plane_bytes + 8);
    const std::span<uint8_t> sign_plane = code.first(plane_bytes);
    const std::span<uint8_t> mask = code.subspan(plane_bytes, plane_bytes);
    const std::span<uint8_t> signs = code.subspan(2 * plane_bytes);
    const uint64_t num_blocks = (count + kCodeBlock - 1) / kCodeBlock;
    const size_t blocks_per_call = std::min<uint64_t>(kernels::kAnsMaxBlocks, num_blocks);
    const auto symbols = std::make_unique_for_overwrite<uint8_t[]>(blocks_per_call * kCodeBlock);
    size_t num_signs = 0;
    for (uint64_t block = 0; block < num_blocks; block += blocks_per_call) {
      const uint64_t at = block * kCodeBlock;
      TERN_RETURN_IF_ERROR(row.Decode(
          table, block, std::min<uint64_t>(blocks_per_call, num_blocks - block), symbols.get()));
      num_signs = kernels::CodeOfSymbols(
          symbols.get(), std::min<uint64_t>(blocks_per_call * kCodeBlock, count - at), num_signs,
          mask.data() + at / 8, signs.data());
    }
    kernels::SpreadSigns(mask.data(), count, signs, sign_plane.data());
    return ParsedCode{mask, sign_plane, 1 + row.size()};
  }

  bool IsStored(std::span<const uint8_t> sum, uint64_t count) const {
    return count == 0 || (!sum.empty() && sum[0] == kStored);
  }
  static std::span<const uint8_t> WithoutFormatByte(std::span<const uint8_t> sum) {
    return sum.subspan(sum.empty() ? 0 : 1);
  }

  // Decodes elements [first, first + n) of an entropy-coded sum, and calls `use` with their means.
  Status DecodeSumRow(std::span<const uint8_t> sum, uint64_t count, int contributors, float scaler,
                      uint64_t first, uint64_t n, const Codec::BlockVisitor& use) const {
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
      kernels::MeansOfSymbols(symbols.data() + at % kSumBlock, num_decoded, contributors, scaler,
                              means.data());
      use(at, std::span(means).first(num_decoded));
      at += num_decoded;
    }
    return Ok();
  }
};

}  // namespace

const IntegerWire& AnsWire() {
  static const Ans wire;
  return wire;
}

}  // namespace tern::codec
