// qsgd_shared: QSGD (Alistarh et al. 2017) with a norm that all workers share, as TernGrad (Wen et
// al. 2017) shares its scalers, so that codes are integers with one unit and their sums are exact
// (docs/ALGORITHMS.md, section 14). With 2 bits its codes are TernGrad's without a clip.
// qsgd_shared_ans: the same codes, entropy-coded where that is smaller (entropy_wire.h).
#include <array>
#include <utility>

#include "common/base/text.h"
#include "common/codec/entropy_wire.h"
#include "common/codec/makers.h"
#include "kernels/codes/ans_symbols.h"
#include "kernels/codes/levels.h"
#include "kernels/codes/ternary.h"

namespace tern::codec {
namespace {

// Codes of `bits` bits in two's complement, as planes: plane p has bit p of each code. Every row of
// bits is valid, because the adder takes the smallest number, which is not a code, as 0
// (kernels/codes/planes.h).
struct LevelPlanes {
  int bits;

  size_t Size(uint64_t count) const {
    return static_cast<size_t>(bits) * kernels::PlaneBytes(count);
  }
  void Append(const float* g, const Segment& segment, const EncodeParams& prepared,
              kernels::NoiseKey noise, std::vector<uint8_t>* out) const {
    noise.tensor = segment.tensor;
    const size_t begin = out->size();
    out->resize(begin + Size(segment.count));
    kernels::EncodeLevels(g, segment.count, {bits, prepared.scaler, prepared.clip}, noise,
                          segment.begin, out->data() + begin);
  }
  // Splits the planes into the lower bits and the signs.
  ParsedCode Split(std::span<const uint8_t> planes, uint64_t count) const {
    const size_t plane_bytes = kernels::PlaneBytes(count), low_bytes = Size(count) - plane_bytes;
    return {planes.first(low_bytes), planes.subspan(low_bytes, plane_bytes), Size(count)};
  }
  Result<ParsedCode> Parse(std::string_view name, std::span<const uint8_t> bytes,
                           uint64_t count) const {
    const size_t plane_bytes = kernels::PlaneBytes(count);
    if (bytes.size() < Size(count)) {
      return Status(Code::kMismatch,
                    Cat(name, " code cut short: ", bytes.size(), " bytes, expected ", bits,
                        " planes of ", plane_bytes, " for ", count, " elements"));
    }
    for (size_t at = 0; at < Size(count); at += plane_bytes) {
      if (UnusedBitsAreZero(bytes.subspan(at, plane_bytes), count)) continue;
      return Status(Code::kMismatch, Cat(name, " planes of ", count,
                                         " elements have a bit set beyond the last of them"));
    }
    return Split(bytes, count);
  }
};

class LevelWire : public IntegerWire {
 public:
  explicit LevelWire(int bits) : planes_{bits} {}

  std::string_view name() const override { return "qsgd_shared"; }
  int code_bits() const override { return planes_.bits; }
  void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    planes_.Append(g, segment, prepared, noise, out);
  }
  size_t MaxCodeSize(uint64_t count) const override { return planes_.Size(count); }
  Result<ParsedCode> Parse(std::span<const uint8_t> bytes, uint64_t count,
                           Scratch*) const override {
    return planes_.Parse(name(), bytes, count);
  }

 private:
  const LevelPlanes planes_;
};

class LevelAns : public EntropyWire {
 public:
  explicit LevelAns(int bits) : planes_{bits} {}

  std::string_view name() const override { return "qsgd_shared_ans"; }
  int code_bits() const override { return planes_.bits; }
  void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    if (segment.count == 0) return;
    std::vector<uint8_t> stored;
    planes_.Append(g, segment, prepared, noise, &stored);
    AppendCodeOfPlanes(stored, segment.count, out);
  }

 protected:
  size_t MaxStoredSize(uint64_t count) const override { return planes_.Size(count); }
  Result<ParsedCode> ParseStored(std::span<const uint8_t> bytes, uint64_t count,
                                 Scratch*) const override {
    return planes_.Parse(name(), bytes, count);
  }
  Result<ParsedCode> DecodeCodeRow(const AnsRow& row, uint64_t count,
                                   Scratch* scratch) const override {
    const std::span<uint8_t> planes = scratch->GetBuffer(planes_.Size(count));
    TERN_RETURN_IF_ERROR(
        VisitSymbols(row, count, [&](uint64_t first, std::span<const uint8_t> symbols) {
          kernels::PlanesOfSymbols(symbols.data(), symbols.size(), code_bits(), MaxSum(1),
                                   kernels::PlaneBytes(count), planes.data() + first / 8);
        }));
    return planes_.Split(planes, count);
  }

 private:
  const LevelPlanes planes_;
};

// The wires of 2 to 8 bits.
template <class Wire>
const IntegerWire& WireOfBits(int bits) {
  static const std::array<Wire, kernels::kMaxLevelBits - kernels::kMinLevelBits + 1> wires = {
      Wire(2), Wire(3), Wire(4), Wire(5), Wire(6), Wire(7), Wire(8)};
  return wires[static_cast<size_t>(bits - kernels::kMinLevelBits)];
}

}  // namespace

Result<std::unique_ptr<Codec>> MakeQsgdShared(const Options& options, bool entropy_coded) {
  const uint32_t bits = options.keys.qsgd_shared().bits();
  if (bits < kernels::kMinLevelBits || bits > kernels::kMaxLevelBits)
    return Status(Code::kBadJob, Cat("exchange.qsgd_shared.bits is ", bits, ", expected ",
                                     kernels::kMinLevelBits, " to ", kernels::kMaxLevelBits));
  if (options.clip == Clip::kGrace)
    return Status(Code::kBadJob,
                  "exchange.clip is grace, which is defined for scalers per worker only, and the "
                  "workers share the norms of qsgd_shared: set exchange.clip to none");
  const auto code_bits = static_cast<int>(bits);
  return MakeIntegerCodec(
      options, entropy_coded ? WireOfBits<LevelAns>(code_bits) : WireOfBits<LevelWire>(code_bits));
}

}  // namespace tern::codec
