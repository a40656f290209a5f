#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "common/codec/ans_row.h"
#include "common/codec/float_sum.h"
#include "common/codec/mask_signs.h"
#include "common/codec/ternary_wire.h"
#include "kernels/planes.h"
#include "kernels/ternary.h"

namespace tern::codec {
namespace {

// The first byte of a code or a sum that is not empty.
constexpr uint8_t kStored = 0;  // as `ternary` has it: where that is no larger
constexpr uint8_t kCoded = 1;   // a row of symbols (ans_row.h): k + N for the integer k in [-N, N]

// What is coded on its own costs some 30 bytes: a code is read whole, a sum 4096 at a time.
constexpr size_t kCodeBlock = 16384;
constexpr size_t kSumBlock = 4096;
// A symbol is a byte: sums of more contributors are stored.
constexpr int kMostContributors = 127;

constexpr uint64_t kOnes = 0x0101010101010101;  // in each of eight bytes

// Bit i of `bits` as byte i, 0 or 1.
uint64_t Spread(uint8_t bits) {
  return ((bits * kOnes & 0x8040201008040201) + 0x7F * kOnes) >> 7 & kOnes;
}

// Byte i of `bytes`, 0 or 1, as bit i.
uint8_t Collect(uint64_t bytes) { return static_cast<uint8_t>(bytes * 0x0102040810204080 >> 56); }

void Store(uint64_t bytes, size_t at, std::vector<uint8_t>* symbols) {
  std::memcpy(symbols->data() + at, &bytes, sizeof bytes);
}

// Of codes, N = 1.
std::vector<uint8_t> SymbolsOfCode(const MaskSigns& code, uint64_t count) {
  std::vector<uint8_t> negative(code.mask.size()), symbols(8 * code.mask.size());
  PlaceSigns(code, negative);
  for (size_t i = 0; i < code.mask.size(); ++i) {
    Store(kOnes + Spread(code.mask[i]) - 2 * Spread(negative[i]), 8 * i, &symbols);
  }
  symbols.resize(count);
  return symbols;
}

// `mask` and then `signs` into `scratch`; `symbols` below 3, padded to whole bytes of a plane.
MaskSigns CodeOfSymbols(const std::vector<uint8_t>& symbols, std::vector<uint8_t>* scratch) {
  const size_t plane = symbols.size() / 8;
  std::vector<uint8_t> negative(plane), signs;
  scratch->resize(plane);
  for (size_t i = 0; i < plane; ++i) {
    uint64_t bytes;
    std::memcpy(&bytes, symbols.data() + 8 * i, sizeof bytes);
    const uint64_t zero = bytes & kOnes, positive = bytes >> 1 & kOnes;
    (*scratch)[i] = Collect(zero ^ kOnes);
    negative[i] = Collect((zero | positive) ^ kOnes);
  }
  GatherSigns(*scratch, negative, &signs);
  scratch->insert(scratch->end(), signs.begin(), signs.end());
  const std::span<const uint8_t> code(*scratch);
  return {code.first(plane), code.subspan(plane)};
}

// k + N of the planes of sums, modulo 2^bits, in eight bytes at a time without carries between.
std::vector<uint8_t> SymbolsOfSum(std::span<const uint8_t> planes, uint64_t count,
                                  int contributors) {
  constexpr uint64_t kHigh = 0x80 * kOnes;
  const size_t plane = kernels::PlaneBytes(count);
  const int bits = kernels::SumBits(contributors);
  const uint64_t add = static_cast<uint64_t>(contributors) * kOnes;
  const uint64_t mask = ((uint64_t{1} << bits) - 1) * kOnes;
  std::vector<uint8_t> symbols(8 * plane);
  for (size_t i = 0; i < plane; ++i) {
    uint64_t k = 0;
    for (int p = 0; p < bits; ++p) k |= Spread(planes[p * plane + i]) << p;
    const uint64_t sum = ((k & ~kHigh) + (add & ~kHigh)) ^ ((k ^ add) & kHigh);
    Store(sum & mask, 8 * i, &symbols);
  }
  symbols.resize(count);
  return symbols;
}

Status BadForm(std::span<const uint8_t> bytes, uint64_t count) {
  if (bytes.empty()) {
    return Status(Code::kMismatch, "no ternary_ans bytes, expected the form of " +
                                       std::to_string(count) + " elements");
  }
  return Status(Code::kMismatch, "ternary_ans form is " + std::to_string(bytes[0]) +
                                     ", expected 0 (stored) or 1 (coded)");
}

// The row of symbols if it is smaller than what is stored.
void AppendSmaller(std::span<const uint8_t> symbols, size_t block, std::span<const uint8_t> stored,
                   std::vector<uint8_t>* out) {
  const size_t begin = out->size();
  out->push_back(kCoded);
  AppendAnsRow(symbols, block, out);
  if (out->size() - begin <= stored.size()) return;
  out->resize(begin);
  out->push_back(kStored);
  out->insert(out->end(), stored.begin(), stored.end());
}

// A row behind the form, which AppendSmaller would have made of something stored in `most` bytes.
Result<AnsRow> ParseSmaller(std::span<const uint8_t> bytes, uint64_t count, size_t block,
                            size_t levels, size_t most) {
  Result<AnsRow> row = AnsRow::Parse(bytes.subspan(1), count, block, levels);
  if (!row.ok() || 1 + row->size() <= most) return row;
  return Status(Code::kMismatch, "ternary_ans row of " + std::to_string(row->size()) +
                                     " bytes, expected less than the " + std::to_string(most) +
                                     " that it has stored");
}

class Ans : public TernaryWire {
 public:
  std::string_view name() const override { return "ternary_ans"; }

  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    if (segment.count == 0) return;
    std::vector<uint8_t> stored;
    AppendMaskSigns(g, segment, prepared, noise, &stored);
    const std::span<const uint8_t> code(stored);
    const size_t plane = kernels::PlaneBytes(segment.count);
    const MaskSigns parts{code.first(plane), code.subspan(plane)};
    AppendSmaller(SymbolsOfCode(parts, segment.count), kCodeBlock, code, out);
  }

  size_t MaxCodeSize(uint64_t count) const override {
    return count == 0 ? 0 : 1 + 2 * kernels::PlaneBytes(count);
  }

  Result<Parsed> Parse(std::span<const uint8_t> bytes, uint64_t count,
                       std::vector<uint8_t>* scratch) const override {
    if (count == 0) return Parsed{};
    if (bytes.empty() || bytes[0] > kCoded) return BadForm(bytes, count);
    if (bytes[0] == kStored) {
      Result<MaskSigns> code = ParseMaskSigns(bytes.subspan(1), count);
      if (!code.ok()) return code.status();
      return Parsed{*code, 1 + code->size()};
    }
    Result<AnsRow> row = ParseSmaller(bytes, count, kCodeBlock, 3, 2 * kernels::PlaneBytes(count));
    if (!row.ok()) return row.status();
    const kernels::AnsDecoder decoder(row->frequencies());
    std::vector<uint8_t> symbols(8 * kernels::PlaneBytes(count), 1);
    for (size_t block = 0; block * kCodeBlock < count; ++block) {
      TERN_RETURN_IF_ERROR(row->Decode(decoder, block, symbols.data() + block * kCodeBlock));
    }
    return Parsed{CodeOfSymbols(symbols, scratch), 1 + row->size()};
  }

  void AppendSum(std::span<const uint8_t> planes, uint64_t count, int contributors,
                 std::vector<uint8_t>* out) const override {
    if (count == 0) return;
    if (contributors <= kMostContributors) {
      return AppendSmaller(SymbolsOfSum(planes, count, contributors), kSumBlock, planes, out);
    }
    out->push_back(kStored);
    TernaryWire::AppendSum(planes, count, contributors, out);
  }

  size_t MaxSumSize(uint64_t count, int contributors) const override {
    return count == 0 ? 0 : 1 + TernaryWire::MaxSumSize(count, contributors);
  }

  Result<size_t> SumPart(std::span<const uint8_t> bytes, uint64_t count,
                         int contributors) const override {
    if (count == 0) return size_t{0};
    if (bytes.empty() || bytes[0] > kCoded) return BadForm(bytes, count);
    if (bytes[0] == kStored) {
      Result<size_t> planes = TernaryWire::SumPart(bytes.subspan(1), count, contributors);
      if (!planes.ok()) return planes;
      return 1 + *planes;
    }
    Result<AnsRow> row = RowOfSum(bytes, count, contributors);
    if (!row.ok()) return row.status();
    return 1 + row->size();
  }

  Status Decode(std::span<const uint8_t> sum, uint64_t count, int contributors, float scaler,
                uint64_t first, uint64_t n, float* mean) const override {
    if (count == 0 || (!sum.empty() && sum[0] == kStored)) {
      return TernaryWire::Decode(count == 0 ? sum : sum.subspan(1), count, contributors, scaler,
                                 first, n, mean);
    }
    if (sum.empty() || sum[0] != kCoded) return BadForm(sum, count);
    Result<AnsRow> row = RowOfSum(sum, count, contributors);
    if (!row.ok()) return row.status();
    TERN_RETURN_IF_ERROR(CheckSum(name(), sum, 1 + row->size(), count, first, n));
    return DecodeRow(*row, contributors, scaler, first, n, mean);
  }

 private:
  static Result<AnsRow> RowOfSum(std::span<const uint8_t> sum, uint64_t count, int contributors) {
    if (contributors > kMostContributors) {
      return Status(Code::kMismatch, "ternary_ans sum of " + std::to_string(contributors) +
                                         " contributors is coded, expected it stored");
    }
    const size_t levels = 2 * static_cast<size_t>(contributors) + 1;
    return ParseSmaller(sum, count, kSumBlock, levels,
                        kernels::SumBits(contributors) * kernels::PlaneBytes(count));
  }

  // Elements [first, first + n): as kernels::DecodeMean says, float(double(s) * k / N).
  static Status DecodeRow(const AnsRow& row, int contributors, float scaler, uint64_t first,
                          uint64_t n, float* mean) {
    std::array<float, kernels::kAnsSymbols> table{};
    for (int s = 0; s <= 2 * contributors; ++s) {
      table[s] =
          static_cast<float>(static_cast<double>(scaler) * (s - contributors) / contributors);
    }
    const kernels::AnsDecoder decoder(row.frequencies());
    std::array<uint8_t, kSumBlock> symbols;
    for (uint64_t at = first; at < first + n;) {
      const uint64_t block = at / kSumBlock;
      TERN_RETURN_IF_ERROR(row.Decode(decoder, block, symbols.data()));
      const uint64_t end = std::min(first + n, (block + 1) * kSumBlock);
      for (; at < end; ++at) *mean++ = table[symbols[at % kSumBlock]];
    }
    return Ok();
  }
};

}  // namespace

const TernaryWire& AnsWire() {
  static const Ans wire;
  return wire;
}

}  // namespace tern::codec
