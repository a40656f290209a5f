// Writes, checks and reads rows of split integers, and chooses how many low bits a row has.
#include "common/codec/split_row.h"

#include <bit>
#include <cstring>

#include "common/base/text.h"
#include "common/codec/mask_signs.h"
#include "kernels/codes/ans_symbols.h"
#include "kernels/codes/ternary.h"

namespace tern::codec {
namespace {

using kernels::PlaneBytes;

// log2(x) with an error below 0.01.
double Log2(uint64_t x) {
  const int exponent = std::bit_width(x) - 1;
  const double rest = static_cast<double>(x) / static_cast<double>(uint64_t{1} << exponent) - 1;
  return exponent + rest * (1.3465 - 0.3465 * rest);
}

// The size of the row in bits: its stored bits, its table and the entropy of its symbols.
double EstimatedBits(const SplitCounts& s, uint64_t count) {
  const double log_count = Log2(count);
  double bits = static_cast<double>(s.split.low_bits) * static_cast<double>(count);
  size_t first = kernels::kAnsSymbols, last = 0;
  for (size_t symbol = 0; symbol < kernels::kAnsSymbols; ++symbol) {
    const uint64_t times = s.counts[symbol];
    if (times == 0) continue;
    first = std::min(first, symbol);
    last = symbol;
    bits += static_cast<double>(times) * (log_count - Log2(times));
  }
  return bits + 16 * static_cast<double>(last - first);
}

// The same integers with one low bit more.
SplitCounts WithOneMoreLowBit(const SplitCounts& s) {
  SplitCounts coarser{{s.split.bits, s.split.low_bits + 1}, {}};
  for (int symbol = 0; symbol < 1 << s.split.symbol_bits(); ++symbol) {
    const int high = (symbol - s.split.symbol_of_zero()) >> 1;
    coarser.counts[static_cast<size_t>(high + coarser.split.symbol_of_zero())] +=
        s.counts[static_cast<size_t>(symbol)];
  }
  return coarser;
}

// The bits that the integers need: all planes above them equal the plane of signs.
int BitsInUse(std::span<const uint8_t> planes, uint64_t count, int bits) {
  const size_t plane_bytes = PlaneBytes(count);
  const auto plane = [&](int p) {
    return planes.subspan(static_cast<size_t>(p) * plane_bytes, plane_bytes);
  };
  while (bits > 2 && std::ranges::equal(plane(bits - 2), plane(bits - 1))) --bits;
  return bits;
}

// The planes of the bits that a symbol has.
std::span<const uint8_t> SymbolPlanes(std::span<const uint8_t> planes, uint64_t count,
                                      const Split& split) {
  return planes.subspan(static_cast<size_t>(split.low_bits) * PlaneBytes(count));
}

}  // namespace

// Begins with the fewest low bits with which symbols have 8 bits, and takes more as long as the row
// becomes shorter.
SplitCounts ChooseSplit(std::span<const uint8_t> planes, uint64_t count, int bits) {
  const Split first{bits, std::max(0, BitsInUse(planes, count, bits) - 8)};
  SplitCounts best{first, CountsOfPlanes(SymbolPlanes(planes, count, first), count,
                                         first.symbol_bits(), first.symbol_of_zero())};
  double best_bits = EstimatedBits(best, count);
  while (best.split.symbol_bits() > 2) {
    const SplitCounts coarser = WithOneMoreLowBit(best);
    const double coarser_bits = EstimatedBits(coarser, count);
    if (coarser_bits >= best_bits) break;
    best = coarser;
    best_bits = coarser_bits;
  }
  return best;
}

void AppendSplitRow(std::span<const uint8_t> planes, uint64_t count, const SplitCounts& chosen,
                    size_t block_size, std::vector<uint8_t>* out) {
  const Split& split = chosen.split;
  const std::span<const uint8_t> symbol_planes = SymbolPlanes(planes, count, split);
  out->push_back(static_cast<uint8_t>(split.low_bits));
  out->insert(out->end(), planes.data(), symbol_planes.data());
  const auto make_symbols = [&](uint64_t first, size_t n, uint8_t* symbols) {
    kernels::SymbolsOfPlanes(symbol_planes.data(), count, split.symbol_bits(),
                             split.symbol_of_zero(), first, n, symbols);
  };
  AppendAnsRow(count, block_size, chosen.counts, make_symbols, out);
}

Result<SplitRow> SplitRow::Parse(std::span<const uint8_t> bytes, uint64_t count, size_t block_size,
                                 int bits) {
  if (bytes.empty()) return Status(Code::kMismatch, "row of split integers is empty");
  const Split split{bits, bytes[0]};
  if (split.low_bits > bits - 2) {
    return Status(Code::kMismatch, Cat("row of integers of ", bits, " bits has ", split.low_bits,
                                       " low bits, expected at most ", bits - 2));
  }
  const size_t plane_bytes = PlaneBytes(count);
  const size_t low_size = static_cast<size_t>(split.low_bits) * plane_bytes;
  if (bytes.size() - 1 < low_size) {
    return Status(Code::kMismatch, Cat("row of split integers cut short: ", bytes.size() - 1,
                                       " bytes, expected planes of ", low_size));
  }
  const std::span<const uint8_t> low_planes = bytes.subspan(1, low_size);
  for (size_t at = 0; at < low_size; at += plane_bytes) {
    if (UnusedBitsAreZero(low_planes.subspan(at, plane_bytes), count)) continue;
    return Status(Code::kMismatch,
                  Cat("row of ", count, " split integers has a bit set beyond the last of them"));
  }
  const Result<AnsRow> symbols = AnsRow::Parse(bytes.subspan(1 + low_size), count, block_size,
                                               size_t{1} << split.symbol_bits());
  if (!symbols.ok()) return symbols.status();
  return SplitRow(split, count, block_size, low_planes, *symbols);
}

Status SplitRow::Decode(const kernels::AnsTable& table, uint64_t index, size_t num_blocks,
                        size_t stride, uint8_t* symbols, uint8_t* planes) const {
  const uint64_t begin = index * block_size_;
  const size_t n = std::min<uint64_t>(num_blocks * block_size_, count_ - begin);
  TERN_RETURN_IF_ERROR(symbols_.Decode(table, index, num_blocks, symbols));
  const auto plane = [&](int p) { return planes + static_cast<size_t>(p) * stride; };
  for (int p = 0; p < split_.low_bits; ++p) {
    const size_t at = static_cast<size_t>(p) * PlaneBytes(count_) + begin / 8;
    std::memcpy(plane(p), low_planes_.data() + at, PlaneBytes(n));
  }
  kernels::PlanesOfSymbols(symbols, n, split_.symbol_bits(), split_.symbol_of_zero(), stride,
                           plane(split_.low_bits));
  const int sign = split_.low_bits + split_.symbol_bits() - 1;
  for (int p = sign + 1; p < split_.bits; ++p) std::memcpy(plane(p), plane(sign), PlaneBytes(n));
  return Ok();
}

}  // namespace tern::codec
