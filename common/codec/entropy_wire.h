// The byte format of entropy-coded integer codes (integer_wire.h), of ternary_ans and
// qsgd_shared_ans. Each code and each sum is in the smaller of two formats: stored (the bytes of
// the codec without entropy coder), or entropy-coded by rANS (Duda 2013; ans_row.h). Sums of codes
// of more than 2 bits, sums that may be beyond [-127, 127], and codes where that is smaller are
// entropy-coded without their low bits (split_row.h). docs/ALGORITHMS.md, section 5, has the sizes.
#pragma once

#include <vector>

#include "common/codec/ans_row.h"
#include "common/codec/integer_wire.h"
#include "common/codec/split_row.h"

namespace tern::codec {

class EntropyWire : public IntegerWire {
 public:
  size_t MaxCodeSize(uint64_t count) const override;
  Result<ParsedCode> Parse(std::span<const uint8_t> bytes, uint64_t count,
                           Scratch* scratch) const override;
  bool sums_are_planes() const override { return false; }
  void AppendSum(std::span<const uint8_t> planes, uint64_t count, int contributors,
                 std::vector<uint8_t>* out) const override;
  // A partial sum has the blocks of a code, because it is read whole.
  void AppendPartial(std::span<const uint8_t> planes, uint64_t count, int contributors,
                     std::vector<uint8_t>* out) const override;
  size_t MaxSumSize(uint64_t count, int contributors) const override;
  Result<size_t> SumSize(std::span<const uint8_t> bytes, uint64_t count,
                         int contributors) const override;
  Status Decode(std::span<const uint8_t> sum, uint64_t count, int contributors, float scaler,
                uint64_t first, uint64_t n, float* mean) const override;
  Status DecodeInBlocks(std::span<const uint8_t> sum, uint64_t count, int contributors,
                        float scaler, const Codec::BlockVisitor& use) const override;

 protected:
  // Appends a code, in the smaller format. `stored` is the stored format; `counts` and `source` are
  // the code's symbols (kernels/codes/ans_symbols.h).
  static void AppendCode(uint64_t count, const kernels::AnsCounts& counts, const AnsSource& source,
                         std::span<const uint8_t> stored, std::vector<uint8_t>* out);
  // The same for a code whose stored format is its planes, and which may be split.
  void AppendCodeOfPlanes(std::span<const uint8_t> planes, uint64_t count,
                          std::vector<uint8_t>* out) const;
  // The most bytes of a code in the stored format.
  virtual size_t MaxStoredSize(uint64_t count) const = 0;
  // Parses a code in the stored format.
  virtual Result<ParsedCode> ParseStored(std::span<const uint8_t> bytes, uint64_t count,
                                         Scratch* scratch) const = 0;
  // Decodes the symbols of a code, and returns its planes; the result's `size` is ignored.
  virtual Result<ParsedCode> DecodeCodeRow(const AnsRow& row, uint64_t count,
                                           Scratch* scratch) const = 0;
  // Calls use(first, symbols) for all symbols of a code, range by range in order; each range begins
  // at a multiple of 64 elements.
  using SymbolVisitor = std::function<void(uint64_t first, std::span<const uint8_t> symbols)>;
  static Status VisitSymbols(const AnsRow& row, uint64_t count, const SymbolVisitor& use);
  Result<PlanesOfPartial> DecodePartial(std::span<const uint8_t> bytes, uint64_t count,
                                        int contributors, Scratch* scratch) const override;

 private:
  Result<ParsedCode> ParseSplitCode(std::span<const uint8_t> bytes, uint64_t count,
                                    Scratch* scratch) const;
  // Whether sums of so many contributors are split, if they are entropy-coded.
  bool SplitsSums(int contributors) const;
  Status BadFormatError(std::span<const uint8_t> bytes, uint64_t count,
                        std::string_view expected) const;
  // Refuses a row of at least `max_stored` bytes, the most bytes of the stored format, because such
  // a row is never written.
  Status CheckRowSize(size_t size, size_t max_stored) const;
  // Parse the row after the first byte of a sum with blocks of `block_size` elements.
  Result<AnsRow> ParseSumRow(std::span<const uint8_t> sum, uint64_t count, int contributors,
                             size_t block_size) const;
  Result<SplitRow> ParseSplitSum(std::span<const uint8_t> sum, uint64_t count, int contributors,
                                 size_t block_size) const;
  // Decode elements [first, first + n) of an entropy-coded sum, and call `use` with their means.
  Status DecodeCodedSum(std::span<const uint8_t> sum, uint64_t count, int contributors,
                        float scaler, uint64_t first, uint64_t n,
                        const Codec::BlockVisitor& use) const;
  Status DecodeSumRow(std::span<const uint8_t> sum, uint64_t count, int contributors, float scaler,
                      uint64_t first, uint64_t n, const Codec::BlockVisitor& use) const;
  Status DecodeSplitSum(std::span<const uint8_t> sum, uint64_t count, int contributors,
                        float scaler, uint64_t first, uint64_t n,
                        const Codec::BlockVisitor& use) const;
};

}  // namespace tern::codec
