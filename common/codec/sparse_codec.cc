// The base class of the sparse codecs (sparse.h), and the sum of their codes.
#include <string>

#include "common/codec/float_sum.h"
#include "common/codec/sparse.h"

namespace tern::codec {
namespace {

// Decodes the workers' codes, and adds the decoded values as floats.
class SparseSum : public RankOrderedSum {
 public:
  SparseSum(SparseValues values, uint64_t count, int workers)
      : RankOrderedSum(count, workers), values_(values) {}
  void EncodeSum(std::vector<uint8_t>* out) override {
    AppendSparse(
        count(), [this](uint64_t first, std::span<float> x) { ComputeMeanOfRange(first, x); }, out);
  }

 protected:
  Result<size_t> Check(std::span<const uint8_t> bytes) const override {
    Result<SparseCode> code = SparseCode::Parse(values_, bytes, count());
    if (!code.ok()) return code.status();
    TERN_RETURN_IF_ERROR(code->Check());
    return code->size();
  }
  void AddTo(std::span<const uint8_t> code, float* sum) const override {
    const Status status = SparseCode::Parse(values_, code, count())->AddTo(sum);
    static_cast<void>(status);  // Always ok, because Check has accepted all blocks.
  }

 private:
  SparseValues values_;
};

}  // namespace

std::unique_ptr<Accumulator> SparseCodec::NewAccumulator(const Segment& segment, int workers,
                                                         const RecodeInputs&) const {
  return std::make_unique<SparseSum>(values_, segment.count, workers);
}

Result<size_t> SparseCodec::SumSize(std::span<const uint8_t> bytes, const Segment& segment,
                                    int) const {
  Result<SparseCode> sum = SparseCode::Parse(SparseValues::kFloats, bytes, segment.count);
  if (!sum.ok()) return sum.status().Within(std::string(name()) + " sum");
  return sum->size();
}

Result<size_t> SparseCodec::DecodeSingleCode(std::span<const uint8_t> bytes, const Segment& segment,
                                             float* values) const {
  Result<SparseCode> code = SparseCode::Parse(values_, bytes, segment.count);
  if (!code.ok()) return code.status().Within(std::string(name()) + " code");
  TERN_RETURN_IF_ERROR(
      code->Decode(0, segment.count, values).Within(std::string(name()) + " code"));
  return code->size();
}

Status SparseCodec::UpdateMemory(std::span<const uint8_t> bytes, const Segment& segment,
                                 std::span<const float> v, Memory* memory) const {
  if (values_ == SparseValues::kPair) return Codec::UpdateMemory(bytes, segment, v, memory);
  Result<SparseCode> code = SparseCode::Parse(values_, bytes, segment.count);
  if (!code.ok()) return code.status().Within(std::string(name()) + " code");
  std::vector<uint32_t> positions;
  TERN_RETURN_IF_ERROR(code->AppendPositions(&positions).Within(std::string(name()) + " code"));
  memory->UpdateSparse(segment.begin, v, positions);
  return Ok();
}

Status SparseCodec::Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                           float, uint64_t first, uint64_t n, float* mean) const {
  Result<size_t> sum_size = SumSize(sum, segment, contributors);
  if (!sum_size.ok()) return sum_size.status();
  TERN_RETURN_IF_ERROR(CheckSumAndRange(name(), sum, *sum_size, segment.count, first, n));
  Result<SparseCode> code = SparseCode::Parse(SparseValues::kFloats, sum, segment.count);
  return code->Decode(first, n, mean).Within(std::string(name()) + " sum");
}

}  // namespace tern::codec
