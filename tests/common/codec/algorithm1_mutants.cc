#include "tests/common/codec/algorithm1_mutants.h"

#include <limits>

#include "common/codec/wrapper.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "tests/common/codec/faulty_codecs.h"

namespace tern::codec {
namespace {

// Each of these classes wraps a correct ternary codec, and plants one fault in it.

class ServerIgnoresLastWorker : public CodecWrapper {
 public:
  using CodecWrapper::CodecWrapper;
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const RecodeInputs& recode_inputs) const override {
    return std::make_unique<SumWithoutLastWorker>(
        inner_->NewAccumulator(segment, workers, recode_inputs), segment.count, workers);
  }

 private:
  class SumWithoutLastWorker : public Accumulator {
   public:
    SumWithoutLastWorker(std::unique_ptr<Accumulator> inner, uint64_t count, int workers)
        : inner_(std::move(inner)),
          ignored_rank_(workers - 1),
          zero_codes_(kernels::PlaneBytes(count)) {}
    Result<size_t> Add(int rank, std::span<const uint8_t> bytes) override {
      if (rank != ignored_rank_) return inner_->Add(rank, bytes);
      TERN_RETURN_IF_ERROR(inner_->Add(rank, zero_codes_).status());
      return bytes.size();
    }
    void EncodeSum(std::vector<uint8_t>* out) override { inner_->EncodeSum(out); }

   private:
    std::unique_ptr<Accumulator> inner_;
    int ignored_rank_;
    std::vector<uint8_t> zero_codes_;  // the payload of codes that are all 0
  };
};

class NoClipping : public CodecWrapper {
 public:
  using CodecWrapper::CodecWrapper;
  EncodeParams Prepare(const kernels::Stats& stats, std::span<const float>,
                       const kernels::NoiseKey&) const override {
    return {stats.max_abs, std::numeric_limits<float>::infinity()};
  }
};

class ScalerNotShared : public CodecWrapper {
 public:
  using CodecWrapper::CodecWrapper;
  bool shares_scaler() const override { return false; }
};

class SignSwapped : public CodecWrapper {
 public:
  using CodecWrapper::CodecWrapper;
  void Encode(const float* g, const Segment& segment, const EncodeParams& encode_params,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    const size_t payload_begin = out->size();
    inner_->Encode(g, segment, encode_params, noise, out);
    const size_t signs_begin = payload_begin + kernels::PlaneBytes(segment.count);
    if (noise.rank == 1 && out->size() > signs_begin) (*out)[signs_begin] ^= 1;
  }
};

class SumNotDivided : public CodecWrapper {
 public:
  using CodecWrapper::CodecWrapper;
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int workers, float scaler,
                uint64_t first, uint64_t n, float* mean) const override {
    const auto factor = static_cast<float>(workers);
    return inner_->Decode(sum, segment, workers, scaler * factor, first, n, mean);
  }
};

// Encodes with the random numbers of rank 0, of round 0, or of the tensor's first elements, as the
// mutant says.
class RepeatedNoise : public CodecWrapper {
 public:
  RepeatedNoise(std::unique_ptr<Codec> inner, Mutant mutant)
      : CodecWrapper(std::move(inner)), mutant_(mutant) {}
  void Encode(const float* g, const Segment& segment, const EncodeParams& encode_params,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    kernels::NoiseKey key = noise;
    Segment noise_segment = segment;
    if (mutant_ == Mutant::kNoiseOfOneRank) key.rank = 0;
    if (mutant_ == Mutant::kNoiseOfOneRound) key.round = 0;
    if (mutant_ == Mutant::kNoiseOfOneSegment) noise_segment.begin = 0;
    inner_->Encode(g, noise_segment, encode_params, key, out);
  }

 private:
  Mutant mutant_;
};

// Wraps `codec` in a codec that has the fault `mutant`. Returns `codec` itself if that fault lies
// outside the codec.
std::unique_ptr<Codec> WithFault(std::unique_ptr<Codec> codec, Mutant mutant) {
  switch (mutant) {
    case Mutant::kServerIgnoresAWorker:
      return std::make_unique<ServerIgnoresLastWorker>(std::move(codec));
    case Mutant::kTruncatedNoise:
      return WithTruncatedNoise(std::move(codec));
    case Mutant::kNoClipping:
      return std::make_unique<NoClipping>(std::move(codec));
    case Mutant::kScalerNotShared:
      return std::make_unique<ScalerNotShared>(std::move(codec));
    case Mutant::kSignSwapped:
      return std::make_unique<SignSwapped>(std::move(codec));
    case Mutant::kSumNotDivided:
      return std::make_unique<SumNotDivided>(std::move(codec));
    case Mutant::kNoiseOfOneRank:
    case Mutant::kNoiseOfOneRound:
    case Mutant::kNoiseOfOneSegment:
      return std::make_unique<RepeatedNoise>(std::move(codec), mutant);
    case Mutant::kTensorLeftOut:
    case Mutant::kWeightDecayMissing:
    case Mutant::kMomentumMissing:
      break;  // FaultyComponents plants these faults, which are outside the codec
  }
  return codec;
}

}  // namespace

std::string NameOf(Mutant mutant) {
  switch (mutant) {
    case Mutant::kServerIgnoresAWorker:
      return "ServerIgnoresAWorker";
    case Mutant::kTruncatedNoise:
      return "TruncatedNoise";
    case Mutant::kNoClipping:
      return "NoClipping";
    case Mutant::kScalerNotShared:
      return "ScalerNotShared";
    case Mutant::kSignSwapped:
      return "SignSwapped";
    case Mutant::kTensorLeftOut:
      return "TensorLeftOut";
    case Mutant::kWeightDecayMissing:
      return "WeightDecayMissing";
    case Mutant::kMomentumMissing:
      return "MomentumMissing";
    case Mutant::kNoiseOfOneRank:
      return "NoiseOfOneRank";
    case Mutant::kNoiseOfOneRound:
      return "NoiseOfOneRound";
    case Mutant::kNoiseOfOneSegment:
      return "NoiseOfOneSegment";
    case Mutant::kSumNotDivided:
      return "SumNotDivided";
  }
  return "Unknown";
}

Components FaultyComponents(const Problem& problem, Mutant mutant) {
  Components components = CorrectComponents(problem);
  components.codec = WithFault(std::move(components.codec), mutant);
  if (mutant == Mutant::kTensorLeftOut) {
    components.exchanged_tensors.erase(components.exchanged_tensors.begin() + 2);
  }
  if (mutant == Mutant::kWeightDecayMissing) components.problem.weight_decay = 0;
  if (mutant == Mutant::kMomentumMissing) components.optimizer = "sgd";
  return components;
}

std::unique_ptr<Codec> WithNoiseOfOneRank(std::unique_ptr<Codec> inner) {
  return WithFault(std::move(inner), Mutant::kNoiseOfOneRank);
}

}  // namespace tern::codec
