// The wire format ternary_ans: TernGrad's codes (Wen et al. 2017) and their sums, entropy-coded
// where that is smaller than the bytes of the codec ternary (entropy_wire.h).
#include "common/codec/entropy_wire.h"
#include "kernels/codes/ans_symbols.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/ternary.h"

namespace tern::codec {
namespace {

// Counts the symbols of a code. `mask`: one bit per element, 1 if the element's code is not 0;
// `signs`: one bit per element whose code is not 0, 1 if the code is negative.
kernels::AnsCounts CountsOfCode(const uint8_t* mask, const uint8_t* signs, uint64_t count) {
  const size_t num_nonzeros = kernels::CountOnes(mask, count);
  const size_t num_negative = kernels::CountOnes(signs, num_nonzeros);
  return {num_negative, count - num_nonzeros, num_nonzeros - num_negative};
}

class TernaryAns : public EntropyWire {
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
    AppendCode(segment.count, CountsOfCode(mask, signs.data(), segment.count), make_symbols, code,
               out);
  }

 protected:
  size_t MaxStoredSize(uint64_t count) const override { return 2 * kernels::PlaneBytes(count); }
  Result<ParsedCode> ParseStored(std::span<const uint8_t> bytes, uint64_t count,
                                 Scratch* scratch) const override {
    return ParseMaskSigns(bytes, count, scratch);
  }
  Result<ParsedCode> DecodeCodeRow(const AnsRow& row, uint64_t count,
                                   Scratch* scratch) const override {
    const size_t plane_bytes = kernels::PlaneBytes(count);
    // CodeOfSymbols may write 8 bytes beyond the signs.
    const std::span<uint8_t> code = scratch->GetBuffer(3 * plane_bytes + 8);
    const std::span<uint8_t> sign_plane = code.first(plane_bytes);
    const std::span<uint8_t> mask = code.subspan(plane_bytes, plane_bytes);
    const std::span<uint8_t> signs = code.subspan(2 * plane_bytes);
    size_t num_signs = 0;
    TERN_RETURN_IF_ERROR(
        VisitSymbols(row, count, [&](uint64_t first, std::span<const uint8_t> symbols) {
          num_signs = kernels::CodeOfSymbols(symbols.data(), symbols.size(), num_signs,
                                             mask.data() + first / 8, signs.data());
        }));
    kernels::SpreadSigns(mask.data(), count, signs, sign_plane.data());
    return ParsedCode{mask, sign_plane};
  }
};

}  // namespace

const IntegerWire& AnsWire() {
  static const TernaryAns wire;
  return wire;
}

}  // namespace tern::codec
