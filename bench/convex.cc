// Theorem 1 of TernGrad (Wen et al. 2017) on a convex problem: stochastic gradient descent with
// ternary gradients converges almost surely if the sum of the learning rates is infinite and that
// of their squares is not. Worker i draws samples x = m[i] + r, and its loss is the mean of
// 1/2 |w - x|^2. So its gradient in a step is w - m[i] - r, and the minimum of the mean loss is the
// mean of all m[i]. The components of r are independent, with mean 0 and variance 1: symmetric
// (Laplace) or skewed (exponential, less 1). The rate of step t is 1 / (t + 10). Prints a JSON list
// of
//   {"row", "tails", "seed", "errors": [[t, |w - minimum|^2], ...]}
// with steps t from a tenth of the last one to the last.
//   convex [SEEDS [STEPS]]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "kernels/codes/stats.h"
#include "tests/common/codec/faulty_codecs.h"

namespace tern::bench {
namespace {

constexpr int kWorkers = 4;
constexpr size_t kElements = 1024;
constexpr double kSpread = 0.3;  // the standard deviation of the components of m
constexpr int kPoints = 11;      // errors printed

using MadeCodec = std::unique_ptr<codec::Codec>;

struct Row {
  const char* name;
  const char* codec;
  codec::Clip clip;
  uint64_t rotate;
  std::function<MadeCodec(MadeCodec)> fault;
};

std::vector<Row> Rows() {
  using codec::Clip;
  return {{"fp32", "fp32", Clip::kNone, 0, {}},
          {"ternary", "ternary", Clip::kNone, 0, {}},
          {"ternary, clip paper 2.5", "ternary", Clip::kPaper, 0, {}},
          {"ternary, clip official 2.5", "ternary", Clip::kOfficial, 0, {}},
          {"ternary, clip paper 2.5, rotated", "ternary", Clip::kPaper, kElements, {}},
          {"ternary, worker 0 ignored", "ternary", Clip::kNone, 0, codec::WithIgnoredWorker},
          {"ternary, 4 bits of noise", "ternary", Clip::kNone, 0, codec::WithTruncatedNoise}};
}

// Values with mean 0 and variance 1.
class Draws {
 public:
  Draws(bool is_skewed, uint64_t seed) : is_skewed_(is_skewed), random_(seed) {}
  float Next() {
    const double magnitude = exponential_(random_);
    if (is_skewed_) return static_cast<float>(magnitude - 1);
    const double sign = (random_() & 1) != 0 ? 1 : -1;
    return static_cast<float>(sign * magnitude / std::sqrt(2.0));
  }

 private:
  const bool is_skewed_;
  std::mt19937_64 random_;
  std::exponential_distribution<double> exponential_;
};

// Sets *mean to the mean of the workers' gradients after an exchange with shared scalers.
void Exchange(const codec::Codec& codec, std::vector<std::vector<float>>* gradients,
              const kernels::NoiseKey& step_noise, std::vector<float>* mean) {
  const codec::Segment segment{0, 0, kElements};
  std::vector<codec::EncodeParams> params;
  float scaler = 0;
  for (auto& g : *gradients) {
    if (codec.rotates()) codec.Rotate(0, 0, g, g.data());
    params.push_back(codec.Prepare(kernels::ComputeStats(g.data(), g.size()), g, step_noise));
    scaler = std::max(scaler, params.back().scaler);
  }
  const auto sum = codec.NewAccumulator(segment, kWorkers);
  kernels::NoiseKey noise = step_noise;
  for (int rank = 0; rank < kWorkers; ++rank) {
    if (codec.shares_scaler()) params[rank].scaler = scaler;
    noise.rank = static_cast<uint16_t>(rank);
    std::vector<uint8_t> code;
    codec.Encode((*gradients)[rank].data(), segment, params[rank], noise, &code);
    if (!sum->Add(rank, code).ok()) std::exit(1);
  }
  std::vector<uint8_t> bytes;
  sum->EncodeSum(&bytes);
  if (!codec.Decode(bytes, segment, kWorkers, scaler, 0, kElements, mean->data()).ok())
    std::exit(1);
}

class Descent {
 public:
  Descent(const codec::Codec& codec, bool is_skewed, uint64_t seed)
      : codec_(codec), seed_(seed), draws_(is_skewed, seed), minimum_(kElements), w_(kElements) {
    std::mt19937_64 random(seed + 1000);
    std::normal_distribution<double> normal;
    for (auto& m : means_) {
      for (size_t i = 0; i < kElements; ++i) {
        m.push_back(kSpread * normal(random));
        minimum_[i] += m[i] / kWorkers;
      }
    }
  }

  void Step(uint64_t t) {
    for (int rank = 0; rank < kWorkers; ++rank) {
      for (size_t i = 0; i < kElements; ++i)
        gradients_[rank][i] = static_cast<float>(w_[i] - means_[rank][i]) - draws_.Next();
    }
    Exchange(codec_, &gradients_, {.seed = seed_, .round = t}, &mean_);
    const double rate = 1 / (static_cast<double>(t) + 10);
    for (size_t i = 0; i < kElements; ++i) w_[i] -= rate * mean_[i];
  }
  double SquaredError() const {
    double sum = 0;
    for (size_t i = 0; i < kElements; ++i) sum += (w_[i] - minimum_[i]) * (w_[i] - minimum_[i]);
    return sum;
  }

 private:
  const codec::Codec& codec_;
  const uint64_t seed_;
  Draws draws_;
  std::vector<std::vector<double>> means_{kWorkers};  // m
  std::vector<double> minimum_, w_;
  std::vector<std::vector<float>> gradients_{kWorkers, std::vector<float>(kElements)};
  std::vector<float> mean_ = std::vector<float>(kElements);
};

void PrintRun(const char* separator, const Row& row, bool is_skewed, uint64_t seed,
              uint64_t steps) {
  codec::Options options;
  options.clip = row.clip;
  options.rotate = row.rotate;
  auto made = codec::MakeCodec(row.codec, options);
  if (!made.ok()) std::exit(1);
  const MadeCodec codec = row.fault ? row.fault(std::move(*made)) : std::move(*made);
  Descent descent(*codec, is_skewed, seed);
  std::printf("%s{\"row\": \"%s\", \"tails\": \"%s\", \"seed\": %llu, \"errors\": [", separator,
              row.name, is_skewed ? "skewed" : "symmetric", static_cast<unsigned long long>(seed));
  int num_printed = 0;
  for (uint64_t t = 1; t <= steps; ++t) {
    descent.Step(t);
    const double next = std::pow(10.0, static_cast<double>(num_printed) / (kPoints - 1) - 1);
    if (static_cast<double>(t) < next * static_cast<double>(steps)) continue;
    std::printf("%s[%llu, %.6g]", num_printed++ == 0 ? "" : ", ",
                static_cast<unsigned long long>(t), descent.SquaredError());
  }
  std::printf("]}");
}

int Main(int argc, char** argv) {
  const uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 8;
  const uint64_t steps = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 30000;
  if (argc > 3 || seeds == 0 || steps < 100) {
    std::fprintf(stderr, "convex [SEEDS [STEPS]], at least 1 seed and 100 steps\n");
    return 64;
  }
  const char* separator = "[";
  for (const bool is_skewed : {false, true}) {
    for (const Row& row : Rows()) {
      for (uint64_t seed = 1; seed <= seeds; ++seed, separator = ",\n ")
        PrintRun(separator, row, is_skewed, seed, steps);
    }
  }
  std::printf("]\n");
  return 0;
}

}  // namespace
}  // namespace tern::bench

int main(int argc, char** argv) { return tern::bench::Main(argc, argv); }
