#include "kernels/ternary.h"

#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "common/codec/clip.h"
#include "common/codec/codecs.h"
#include "common/codec/mask_signs.h"
#include "common/codec/ternary_wire.h"
#include "kernels/planes.h"

namespace tern::codec {
namespace {

class MaskAndSigns : public TernaryWire {
 public:
  std::string_view name() const override { return "ternary"; }
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    AppendMaskSigns(g, segment, prepared, noise, out);
  }
  size_t MaxCodeSize(uint64_t count) const override { return 2 * kernels::PlaneBytes(count); }
  Result<Parsed> Parse(std::span<const uint8_t> bytes, uint64_t count,
                       std::vector<uint8_t>*) const override {
    Result<MaskSigns> code = ParseMaskSigns(bytes, count);
    if (!code.ok()) return code.status();
    return Parsed{*code, code->size()};
  }
};

// Sums are integers: any order of arrival gives the same planes, and the planes are the answer. In
// two's complement a sum of fewer workers is the same integers in fewer planes, the lowest: only as
// many are worked on as the workers so far need. Codes that may be kept wait for each other, so
// that the planes are read and written once for kMostCodes of them; the last go straight into the
// answer.
class TernarySum : public Accumulator {
 public:
  TernarySum(const TernaryWire& wire, uint64_t count, int workers)
      : wire_(wire), count_(count), workers_(workers) {}

  Result<size_t> Add(int, std::span<const uint8_t> bytes) override {
    Result<size_t> size = Park(bytes, Bytes());
    AddParked();
    return size;
  }
  Result<size_t> Take(int, const Bytes& bytes) override { return Park(bytes.span(), bytes); }
  void EncodeSum(std::vector<uint8_t>* out) override {
    if (!wire_.sums_are_planes()) {
      AddParked();
      wire_.AppendSum({planes_.get(), SumBytes(contributors_)}, count_, contributors_, out);
      return;
    }
    const size_t begin = out->size();
    out->resize(begin + SumBytes(contributors_));
    AddParkedTo(out->data() + begin);
  }

 private:
  struct Parked {
    Bytes bytes;
    std::vector<uint8_t> scratch;
    kernels::WorkerCodes codes;  // views of both
  };

  Result<size_t> Park(std::span<const uint8_t> bytes, const Bytes& owner) {
    if (parked_.size() == kernels::kMostCodes) AddParked();
    Parked parked{owner, {}, {}};
    Result<TernaryWire::Parsed> parsed = wire_.Parse(bytes, count_, &parked.scratch);
    if (!parsed.ok()) return parsed.status();
    parked.codes = {parsed->code.mask.data(), parsed->code.signs, parsed->placed};
    parked_.push_back(std::move(parked));
    ++contributors_;
    return parsed->size;
  }
  void AddParked() {
    if (parked_.empty()) return;
    if (planes_ == nullptr) planes_ = std::make_unique_for_overwrite<uint8_t[]>(SumBytes(workers_));
    AddParkedTo(planes_.get());
    parked_.clear();
    held_ = kernels::SumBits(contributors_);
  }
  void AddParkedTo(uint8_t* planes) const {
    std::array<kernels::WorkerCodes, kernels::kMostCodes> codes{};
    for (size_t i = 0; i < parked_.size(); ++i) codes[i] = parked_[i].codes;
    kernels::AddCodes(std::span(codes).first(parked_.size()), count_, planes_.get(), held_,
                      kernels::SumBits(contributors_), planes);
  }
  size_t SumBytes(int workers) const {
    return kernels::SumBits(workers) * kernels::PlaneBytes(count_);
  }

  const TernaryWire& wire_;
  uint64_t count_;
  int workers_;
  int contributors_ = 0;
  std::vector<Parked> parked_;
  std::unique_ptr<uint8_t[]> planes_;  // of those no longer parked
  int held_ = 0;                       // planes of them that hold something
};

class Ternary : public Codec {
 public:
  Ternary(const TernaryWire& wire, const Options& options) : wire_(wire), options_(options) {}

  std::string_view name() const override { return wire_.name(); }
  bool stochastic() const override { return true; }
  uint64_t scaler_elements() const override { return options_.scaler_elements; }
  bool shares_scaler() const override { return true; }
  Prepared Prepare(const kernels::Stats& stats, std::span<const float> values,
                   const kernels::NoiseKey&) const override {
    return PrepareTernary(stats, values.size(), options_);
  }
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    wire_.Encode(g, segment, prepared, noise, out);
  }
  size_t MaxEncodedSize(const Segment& segment) const override {
    return wire_.MaxCodeSize(segment.count);
  }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const Recode&) const override {
    return std::make_unique<TernarySum>(wire_, segment.count, workers);
  }
  size_t MaxSumSize(const Segment& segment, int contributors) const override {
    return wire_.MaxSumSize(segment.count, contributors);
  }
  Result<size_t> SumPart(std::span<const uint8_t> bytes, const Segment& segment,
                         int contributors) const override {
    return wire_.SumPart(bytes, segment.count, contributors);
  }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                float scaler, uint64_t first, uint64_t n, float* mean) const override {
    if (!std::isfinite(scaler) || scaler < 0) {
      return Status(Code::kMismatch, "ternary scaler is " + std::to_string(scaler) +
                                         ", expected finite and not negative");
    }
    return wire_.Decode(sum, segment.count, contributors, scaler, first, n, mean);
  }

 private:
  const TernaryWire& wire_;
  Options options_;
};

}  // namespace

const TernaryWire& MaskSignsWire() {
  static const MaskAndSigns wire;
  return wire;
}

std::unique_ptr<Codec> MakeTernary(const Options& options, const TernaryWire& wire) {
  return std::make_unique<Ternary>(wire, options);
}

}  // namespace tern::codec
