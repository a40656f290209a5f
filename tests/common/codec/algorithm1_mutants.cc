#include "tests/common/codec/algorithm1_mutants.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/codec/wrapper.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"

namespace tern::codec {
namespace {

class ServerIgnoresLastWorker : public Wrapper {
 public:
  using Wrapper::Wrapper;
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const Recode& recode) const override {
    return std::make_unique<Sum>(inner_->NewAccumulator(segment, workers, recode), segment.count,
                                 workers);
  }

 private:
  class Sum : public Accumulator {
   public:
    Sum(std::unique_ptr<Accumulator> inner, uint64_t count, int workers)
        : inner_(std::move(inner)), ignored_(workers - 1), nothing_(kernels::PlaneBytes(count)) {}
    Result<size_t> Add(int rank, std::span<const uint8_t> bytes) override {
      if (rank != ignored_) return inner_->Add(rank, bytes);
      TERN_RETURN_IF_ERROR(inner_->Add(rank, nothing_).status());
      return bytes.size();
    }
    void EncodeSum(std::vector<uint8_t>* out) override { inner_->EncodeSum(out); }

   private:
    std::unique_ptr<Accumulator> inner_;
    int ignored_;
    std::vector<uint8_t> nothing_;  // the payload of codes that are all zero
  };
};

class TruncatedNoise : public Wrapper {
 public:
  using Wrapper::Wrapper;
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    kernels::NoiseKey key = noise;
    key.tensor = segment.tensor;
    std::vector<uint8_t> mask(kernels::PlaneBytes(segment.count));
    std::vector<uint8_t> signs(mask.size());
    size_t ones = 0;
    for (uint64_t i = 0; i < segment.count; ++i) {
      const float x = std::min(std::abs(g[i]), prepared.clip);
      const unsigned draw = kernels::Draw16(key, segment.begin + i, 0) >> 12;
      if (!(x > 0) || !(static_cast<float>(draw) / 16 < x / prepared.scaler)) continue;
      mask[i / 8] |= static_cast<uint8_t>(1 << (i % 8));
      if (g[i] < 0) signs[ones / 8] |= static_cast<uint8_t>(1 << (ones % 8));
      ++ones;
    }
    out->insert(out->end(), mask.begin(), mask.end());
    out->insert(out->end(), signs.begin(), signs.begin() + kernels::PlaneBytes(ones));
  }
};

class NoClipping : public Wrapper {
 public:
  using Wrapper::Wrapper;
  Prepared Prepare(const kernels::Stats& stats, std::span<const float>,
                   const kernels::NoiseKey&) const override {
    return {stats.max_abs, std::numeric_limits<float>::infinity()};
  }
};

class ScalerNotShared : public Wrapper {
 public:
  using Wrapper::Wrapper;
  bool shares_scaler() const override { return false; }
};

class SignSwapped : public Wrapper {
 public:
  using Wrapper::Wrapper;
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    const size_t begin = out->size();
    inner_->Encode(g, segment, prepared, noise, out);
    const size_t signs = begin + kernels::PlaneBytes(segment.count);
    if (noise.rank == 1 && out->size() > signs) (*out)[signs] ^= 1;
  }
};

class SumNotDivided : public Wrapper {
 public:
  using Wrapper::Wrapper;
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int workers, float scaler,
                uint64_t first, uint64_t n, float* mean) const override {
    const auto times = static_cast<float>(workers);
    return inner_->Decode(sum, segment, workers, scaler * times, first, n, mean);
  }
};

// Encodes with the random noise of rank 0, of round 0, or of a tensor's first elements.
class NoiseFromElsewhere : public Wrapper {
 public:
  NoiseFromElsewhere(std::unique_ptr<Codec> inner, Mutant which)
      : Wrapper(std::move(inner)), which_(which) {}
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    kernels::NoiseKey key = noise;
    Segment place = segment;
    if (which_ == Mutant::kNoiseOfOneRank) key.rank = 0;
    if (which_ == Mutant::kNoiseOfOneRound) key.round = 0;
    if (which_ == Mutant::kNoiseOfOneSegment) place.begin = 0;
    inner_->Encode(g, place, prepared, key, out);
  }

 private:
  Mutant which_;
};

std::unique_ptr<Codec> Break(std::unique_ptr<Codec> codec, Mutant mutant) {
  switch (mutant) {
    case Mutant::kServerIgnoresAWorker:
      return std::make_unique<ServerIgnoresLastWorker>(std::move(codec));
    case Mutant::kTruncatedNoise:
      return std::make_unique<TruncatedNoise>(std::move(codec));
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
      return std::make_unique<NoiseFromElsewhere>(std::move(codec), mutant);
    case Mutant::kTensorLeftOut:
    case Mutant::kWeightDecayMissing:
    case Mutant::kMomentumMissing:
      break;  // this fault is not in the codec
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

Parts BrokenParts(const Problem& problem, Mutant mutant) {
  Parts parts = SoundParts(problem);
  parts.codec = Break(std::move(parts.codec), mutant);
  if (mutant == Mutant::kTensorLeftOut) parts.exchanged.erase(parts.exchanged.begin() + 2);
  if (mutant == Mutant::kWeightDecayMissing) parts.problem.weight_decay = 0;
  if (mutant == Mutant::kMomentumMissing) parts.optimizer = "sgd";
  return parts;
}

std::unique_ptr<Codec> WithTruncatedNoise(std::unique_ptr<Codec> inner) {
  return Break(std::move(inner), Mutant::kTruncatedNoise);
}

std::unique_ptr<Codec> WithNoiseOfOneRank(std::unique_ptr<Codec> inner) {
  return Break(std::move(inner), Mutant::kNoiseOfOneRank);
}

}  // namespace tern::codec
