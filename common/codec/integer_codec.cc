// The codecs whose codes are integers with one scaler for all workers, so that the server adds
// integers: TernGrad (Wen et al. 2017, Algorithm 1 and section 3.3) with codes -1, 0 and +1, and
// qsgd_shared with codes of more levels.
#include <array>
#include <cmath>
#include <memory>

#include "common/base/text.h"
#include "common/codec/clip.h"
#include "common/codec/integer_wire.h"
#include "common/codec/makers.h"
#include "common/codec/mask_signs.h"
#include "kernels/codes/planes.h"

namespace tern::codec {
namespace {

// Adds codes as integers. The sum is stored in planes: plane p has bit p of the sum of each
// element, in two's complement (kernels/codes/planes.h). Any order of arrival gives the same sum.
// The sum of fewer workers needs fewer planes, so only the planes that the present sum needs are
// read and written. AddRetained() lets codes wait until there are kMaxCodes of them, because adding
// them together reads and writes the planes only once.
class IntegerSum : public Accumulator {
 public:
  IntegerSum(const IntegerWire& wire, uint64_t count, int workers)
      : wire_(wire), count_(count), plane_stride_(kernels::PlaneStride(count)), workers_(workers) {}

  Result<size_t> Add(int, std::span<const uint8_t> bytes) override {
    Result<size_t> code_size = AddToWaiting(bytes, Bytes());
    AddWaiting();
    return code_size;
  }
  Result<size_t> AddRetained(int, const Bytes& bytes) override {
    return AddToWaiting(bytes.span(), bytes);
  }
  Result<size_t> AddPartial(std::span<const int> ranks, std::span<const uint8_t> bytes) override {
    const auto contributors = static_cast<int>(ranks.size());
    AddWaiting();
    const Result<ParsedCode> sum = wire_.ParsePartial(bytes, count_, contributors, &scratch_[0]);
    if (!sum.ok()) return sum.status();
    const kernels::WorkerCodes codes = {sum->low_planes.data(), sum->sign_plane.data()};
    AddToPlanes(std::span(&codes, 1), kernels::SumBits(wire_.MaxSum(contributors)), contributors);
    return sum->size;
  }
  void EncodePartial(std::vector<uint8_t>* out) override {
    Encode(&IntegerWire::AppendPartial, out);
  }
  void EncodeSum(std::vector<uint8_t>* out) override { Encode(&IntegerWire::AppendSum, out); }

 private:
  struct alignas(64) CacheLine {
    uint8_t bytes[64];
  };

  // Checks a code and puts it in the list of waiting codes. `owner` keeps the bytes of the code
  // alive, or is empty if the caller calls AddWaiting() immediately afterwards.
  Result<size_t> AddToWaiting(std::span<const uint8_t> bytes, const Bytes& owner) {
    if (num_waiting_ == kernels::kMaxCodes) AddWaiting();
    Result<ParsedCode> code = wire_.Parse(bytes, count_, &scratch_[num_waiting_]);
    if (!code.ok()) return code.status();
    waiting_owners_[num_waiting_] = owner;
    waiting_codes_[num_waiting_] = {code->low_planes.data(), code->sign_plane.data()};
    ++num_waiting_;
    return code->size;
  }
  // Adds all waiting codes to the sum.
  void AddWaiting() {
    if (num_waiting_ == 0) return;
    AddToPlanes(std::span(waiting_codes_).first(num_waiting_), wire_.code_bits(),
                static_cast<int>(num_waiting_));
    std::fill_n(waiting_owners_.begin(), num_waiting_, Bytes());
    num_waiting_ = 0;
  }
  // Adds codes, or a sum of codes, of `bits` bits, of so many workers.
  void AddToPlanes(std::span<const kernels::WorkerCodes> codes, int bits, int workers) {
    if (planes_ == nullptr) {
      planes_ = std::make_unique_for_overwrite<CacheLine[]>(
          kernels::SumBits(wire_.MaxSum(workers_)) * plane_stride_ / sizeof(CacheLine));
    }
    contributors_ += workers;
    const int num_planes = kernels::SumBits(wire_.MaxSum(contributors_));
    kernels::AddCodes(codes, bits, count_, plane_stride_, planes_in_use_, num_planes,
                      planes_[0].bytes);
    planes_in_use_ = num_planes;
  }
  void Encode(void (IntegerWire::*append)(std::span<const uint8_t>, uint64_t, int,
                                          std::vector<uint8_t>*) const,
              std::vector<uint8_t>* out) {
    AddWaiting();
    if (wire_.sums_are_planes()) return AppendPlanes(out);
    std::vector<uint8_t> planes;
    AppendPlanes(&planes);
    (wire_.*append)(planes, count_, contributors_, out);
  }
  // Appends the planes of the sum.
  void AppendPlanes(std::vector<uint8_t>* out) const {
    for (int p = 0; p < planes_in_use_; ++p) {
      const uint8_t* plane = planes_[0].bytes + p * plane_stride_;
      out->insert(out->end(), plane, plane + kernels::PlaneBytes(count_));
    }
  }

  const IntegerWire& wire_;
  uint64_t count_;       // elements of the segment
  size_t plane_stride_;  // bytes from one plane to the next in planes_
  int workers_;
  int contributors_ = 0;  // workers whose codes were added, and do not wait
  // The waiting codes: the first num_waiting_ entries of three arrays. waiting_codes_ refers to the
  // bytes in waiting_owners_ and scratch_.
  size_t num_waiting_ = 0;
  std::array<kernels::WorkerCodes, kernels::kMaxCodes> waiting_codes_;
  std::array<Bytes, kernels::kMaxCodes> waiting_owners_;
  std::array<Scratch, kernels::kMaxCodes> scratch_;
  std::unique_ptr<CacheLine[]> planes_;  // the sum of all codes that are not waiting
  int planes_in_use_ = 0;                // number of planes that the sum needs
};

Status CheckScaler(std::string_view name, float scaler) {
  if (std::isfinite(scaler) && scaler >= 0) return Ok();
  return Status(Code::kMismatch,
                Cat(name, " scaler is ", scaler, ", expected finite and not negative"));
}

class IntegerCodec : public Codec {
 public:
  IntegerCodec(const IntegerWire& wire, const Options& options) : wire_(wire), options_(options) {}

  std::string_view name() const override { return wire_.name(); }
  bool is_stochastic() const override { return true; }
  uint64_t scaler_elements() const override { return options_.scaler_elements; }
  bool shares_scaler() const override { return true; }
  bool adds_partial_sums() const override { return true; }
  EncodeParams Prepare(const kernels::Stats& stats, std::span<const float>,
                       const kernels::NoiseKey&) const override {
    return PrepareScaler(stats, options_);
  }
  void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    wire_.Encode(g, segment, prepared, noise, out);
  }
  size_t MaxEncodedSize(const Segment& segment) const override {
    return wire_.MaxCodeSize(segment.count);
  }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const RecodeInputs&) const override {
    return std::make_unique<IntegerSum>(wire_, segment.count, workers);
  }
  size_t MaxSumSize(const Segment& segment, int contributors) const override {
    return wire_.MaxSumSize(segment.count, contributors);
  }
  Result<size_t> SumSize(std::span<const uint8_t> bytes, const Segment& segment,
                         int contributors) const override {
    return wire_.SumSize(bytes, segment.count, contributors);
  }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                float scaler, uint64_t first, uint64_t n, float* mean) const override {
    TERN_RETURN_IF_ERROR(CheckScaler(name(), scaler));
    return wire_.Decode(sum, segment.count, contributors, scaler, first, n, mean);
  }
  Status DecodeInBlocks(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                        float scaler, const BlockVisitor& use) const override {
    TERN_RETURN_IF_ERROR(CheckScaler(name(), scaler));
    return wire_.DecodeInBlocks(sum, segment.count, contributors, scaler, use);
  }

 private:
  const IntegerWire& wire_;
  Options options_;
};

}  // namespace

std::unique_ptr<Codec> MakeIntegerCodec(const Options& options, const IntegerWire& wire) {
  return std::make_unique<IntegerCodec>(wire, options);
}

}  // namespace tern::codec
