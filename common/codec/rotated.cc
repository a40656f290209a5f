// A codec with random codes, with a rotation before it: the randomized Hadamard transform of
// kernels/codes/rotate.h, which is the same on all workers. It is linear, so that sums of codes are
// codes of rotated sums, and servers need not know of it (docs/ALGORITHMS.md, section 20).
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "common/base/text.h"
#include "common/codec/makers.h"
#include "common/codec/wrapper.h"
#include "kernels/codes/rotate.h"

namespace tern::codec {
namespace {

// A loop that the compiler vectorizes, because decoding must not be slower for it.
bool AreFinite(std::span<const float> values) {
  uint32_t largest = 0;
  for (const float value : values)
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7FFFFFFF);
  return largest < 0x7F800000;
}

class Rotated : public CodecWrapper {
 public:
  Rotated(const Options& options, std::unique_ptr<Codec> inner)
      : CodecWrapper(std::move(inner)),
        name_(Cat(inner_->name(), "_rotated")),
        seed_(options.seed),
        block_(options.rotate) {}

  std::string_view name() const override { return name_; }
  uint64_t scaler_elements() const override { return inner_->scaler_elements(); }
  bool rotates() const override { return true; }
  std::string_view unrotated_name() const override { return inner_->name(); }
  void Rotate(uint32_t tensor, uint64_t begin, std::span<const float> g, float* y) const override {
    kernels::Rotate(g.data(), begin, g.size(), {seed_, tensor, block_}, y);
  }
  uint64_t Granularity(uint64_t column) const override {
    constexpr uint64_t kWholeTensor = std::numeric_limits<uint64_t>::max();
    const uint64_t group = inner_->Granularity(column);
    return group == kWholeTensor ? group : std::lcm(group, block_);
  }
  Result<size_t> DecodeSingleCode(std::span<const uint8_t> code, const Segment& segment,
                                  float* values) const override {
    const Result<size_t> size = inner_->DecodeSingleCode(code, segment, values);
    if (size.ok()) TERN_RETURN_IF_ERROR(RotateBack(segment, 0, {values, segment.count}));
    return size;
  }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                float scaler, uint64_t first, uint64_t n, float* mean) const override {
    if (n == 0 || first > segment.count || n > segment.count - first)  // empty, or an error
      return inner_->Decode(sum, segment, contributors, scaler, first, n, mean);
    const uint64_t begin = first / block_ * block_;
    const uint64_t end = std::min(segment.count, (first + n + block_ - 1) / block_ * block_);
    std::vector<float> values(end - begin);
    TERN_RETURN_IF_ERROR(
        inner_->Decode(sum, segment, contributors, scaler, begin, values.size(), values.data()));
    TERN_RETURN_IF_ERROR(RotateBack(segment, begin, values));
    std::copy_n(&values[first - begin], n, mean);
    return Ok();
  }
  Status DecodeInBlocks(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                        float scaler, const BlockVisitor& use) const override {
    std::vector<float> block(std::min(block_, segment.count));
    Status status = Ok();
    const auto collect = [&](uint64_t first, std::span<const float> values) {
      while (!values.empty()) {
        const uint64_t at = first % block_, begin = first - at;
        const uint64_t size = std::min(block_, segment.count - begin);
        const size_t n = std::min<size_t>(values.size(), size - at);
        std::copy_n(values.begin(), n, block.begin() + static_cast<ptrdiff_t>(at));
        first += n;
        values = values.subspan(n);
        if (at + n < size || !status.ok()) continue;
        status = RotateBack(segment, begin, std::span(block).first(size));
        if (status.ok()) use(begin, std::span(block).first(size));
      }
    };
    TERN_RETURN_IF_ERROR(inner_->DecodeInBlocks(sum, segment, contributors, scaler, collect));
    return status;
  }

 private:
  // Rotates the values back, which are the elements of the segment from `first` on. kMismatch if
  // they overflow, as only invalid codes make them do.
  Status RotateBack(const Segment& segment, uint64_t first, std::span<float> values) const {
    kernels::RotateBack(values.data(), segment.begin + first, values.size(),
                        {seed_, segment.tensor, block_}, values.data());
    if (AreFinite(values)) return Ok();
    return Status(Code::kMismatch, Cat(name_, " values rotated back are not finite, expected ",
                                       "finite means of gradients"));
  }

  const std::string name_;
  const uint64_t seed_;
  const uint64_t block_;  // elements that are rotated together
};

}  // namespace

Result<std::unique_ptr<Codec>> WithRotation(const Options& options, std::unique_ptr<Codec> inner) {
  if (!kernels::IsRotationBlock(options.rotate))
    return Status(Code::kBadJob,
                  Cat("exchange.rotate is ", options.rotate, ", expected 0 or a power of two from ",
                      kernels::kMinRotation, " to ", kernels::kMaxRotation));
  if (inner->scaler_elements() % options.rotate != 0)
    return Status(Code::kBadJob,
                  Cat("exchange.scaler_elements is ", inner->scaler_elements(),
                      ", expected 0 or a multiple of exchange.rotate (", options.rotate,
                      "), because elements that are rotated together have one scaler"));
  return std::unique_ptr<Codec>(std::make_unique<Rotated>(options, std::move(inner)));
}

}  // namespace tern::codec
