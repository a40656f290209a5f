// Tests of algorithms with rounds whose gradients, or changes of weights, are quantized. A
// reference quantizes in double precision what each worker pushes, with the random numbers of the
// job, and adds the means of the quantized values, as the papers' algorithms say. The weights of
// the workers must be close to those of the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/codes/philox.h"
#include "tests/client/train/reference.h"

namespace tern::client {
namespace {

constexpr uint64_t kGroup = 64;  // elements of a tensor that have one norm

// Q(v) of the study of low precision, section 2.4, with s levels between 0 and the norm.
double Quantize(float v, double norm, double s, const kernels::NoiseKey& key, uint64_t element) {
  if (norm == 0) return 0;
  const double x = s * std::abs(double{v}) / norm, level = std::floor(x);
  const bool is_rounded_up = kernels::Draw32(key, element) < std::floor((x - level) * 0x1p32);
  return std::copysign(norm / s * (level + (is_rounded_up ? 1 : 0)), v);
}

// How a job quantizes.
struct Quantizer {
  double levels = 1;  // s
  // Whether the workers use the largest of their norms. If not, each uses its own.
  bool shares_norms = false;

  // Returns what the codes of `pushed`, by rank, stand for in a round.
  std::vector<Vector> Apply(const setup::Setup& job, uint64_t round,
                            const std::vector<std::vector<float>>& pushed) const {
    std::vector<Vector> quantized(pushed.size(), Vector(job.table.total));
    for (uint32_t t = 0; t < job.plan.tensor_count.size(); ++t) {
      for (uint64_t at = 0; at < job.plan.tensor_count[t]; at += kGroup) {
        const uint64_t n = std::min(kGroup, job.plan.tensor_count[t] - at);
        ApplyToGroup(job, round, t, at, n, pushed, &quantized);
      }
    }
    return quantized;
  }

 private:
  // Quantizes elements [first, first + n) of tensor t, which have one norm.
  void ApplyToGroup(const setup::Setup& job, uint64_t round, uint32_t t, uint64_t first, uint64_t n,
                    const std::vector<std::vector<float>>& pushed,
                    std::vector<Vector>* quantized) const {
    const uint64_t begin = job.plan.tensor_begin[t];
    std::vector<double> norms(pushed.size());
    for (size_t rank = 0; rank < pushed.size(); ++rank)
      for (uint64_t i = first; i < first + n; ++i)
        norms[rank] = std::max(norms[rank], std::abs(double{pushed[rank][begin + i]}));
    const double largest_norm = *std::max_element(norms.begin(), norms.end());
    for (size_t rank = 0; rank < pushed.size(); ++rank) {
      const kernels::NoiseKey key{job.job.seed(), kernels::NoiseStream::kCodes,
                                  static_cast<uint16_t>(rank), round, t};
      for (uint64_t i = first; i < first + n; ++i)
        (*quantized)[rank][begin + i] = Quantize(
            pushed[rank][begin + i], shares_norms ? largest_norm : norms[rank], levels, key, i);
    }
  }
};

// The largest distance of the workers' weights from the reference, over all rounds of a job. Fails
// the test if the workers' weights differ.
double LargestDistance(const std::vector<Trace>& traces, uint64_t round, const Vector& expected) {
  double largest = 0;
  for (const Trace& trace : traces) {
    EXPECT_EQ(trace.weights_after_round.at(round), traces[0].weights_after_round.at(round));
    largest = std::max(largest, RelativeDistance(trace.weights_after_round.at(round), expected));
  }
  return largest;
}

// Runs a job of ssgd. The reference adds momentum steps with the mean of the quantized gradients.
// It quantizes the gradients at the weights at which the workers computed them, which are those of
// the reference but for rounding, because a last bit may change a code.
double DistanceOfSsgd(const setup::Setup& job, const Quantizer& quantizer) {
  const auto traces = RunCluster(job, {kSteps});
  Vector w = InitialWeights(job), v;
  double distance = 0;
  for (uint64_t t = 1; t <= kSteps; ++t) {
    std::vector<std::vector<float>> gradients;
    for (uint32_t i = 0; i < kWorkers; ++i) {
      const std::vector<float>& point = traces[i].points[t - 1];
      gradients.emplace_back(point.size());
      AnalyticGradient(i, t, point.data(), point.size(), gradients.back().data());
    }
    MomentumStep(MeanOf(quantizer.Apply(job, t, gradients)), kRate, kMomentum, &v, &w);
    distance = std::max(distance, LargestDistance(traces, t, w));
  }
  return distance;
}

// Runs a job of pqasgd with plain SGD and p = 5: Algorithm 2 of PQASGD, whose lines 8 and 9 add the
// mean of the workers' quantized changes.
double DistanceOfPqasgd(const setup::Setup& job, const Quantizer& quantizer) {
  constexpr uint64_t kPeriod = 5;
  const auto traces = RunCluster(job, {kSteps});
  Vector w = InitialWeights(job);
  std::vector<float> common_weights(w.begin(), w.end());
  std::vector<std::vector<float>> x(kWorkers);
  double distance = 0;
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      x[i] = traces[i].points[s - 1];
      std::vector<float> g(x[i].size());
      AnalyticGradient(i, s, x[i].data(), x[i].size(), g.data());
      for (size_t k = 0; k < g.size(); ++k) x[i][k] -= static_cast<float>(kRate) * g[k];
    }
    if (s % kPeriod != 0 && s != kSteps) {
      for (uint32_t i = 0; i < kWorkers; ++i) EXPECT_EQ(x[i], traces[i].points[s]) << s;
      continue;
    }
    for (auto& each : x)
      for (size_t k = 0; k < each.size(); ++k) each[k] -= common_weights[k];
    const uint64_t round = (s + kPeriod - 1) / kPeriod;
    const Vector mean = MeanOf(quantizer.Apply(job, round, x));
    for (size_t k = 0; k < w.size(); ++k) w[k] += mean[k];
    distance = std::max(distance, LargestDistance(traces, round, w));
    common_weights = traces[0].weights_after_round.at(round);
  }
  return distance;
}

std::vector<std::string> WithQsgd(const std::string& sums) {
  return {"exchange.codec=qsgd", "exchange.qsgd.bits=3",
          "exchange.qsgd.bucket_elements=" + std::to_string(kGroup), "exchange.qsgd.sums=" + sums};
}
std::vector<std::string> WithPlainSgd(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"train.pqasgd.p=5", "train.optimizer.name=sgd"});
  return overrides;
}

TEST(SsgdWithQsgd, AddsTheExactMeanOfTheCodes) {
  const Quantizer quantizer{.levels = 3};
  EXPECT_LT(DistanceOfSsgd(*MakeJob("ssgd", WithQsgd("exact")), quantizer), kTolerance);
  EXPECT_GT(DistanceOfSsgd(*MakeJob("ssgd", WithQsgd("coded")), quantizer), 1000 * kTolerance);
}

TEST(PqasgdWithQsgd, AddsTheExactMeanOfTheCodes) {
  const Quantizer quantizer{.levels = 3};
  EXPECT_LT(DistanceOfPqasgd(*MakeJob("pqasgd", WithPlainSgd(WithQsgd("exact"))), quantizer),
            kTolerance);
  EXPECT_GT(DistanceOfPqasgd(*MakeJob("pqasgd", WithPlainSgd(WithQsgd("coded"))), quantizer),
            1000 * kTolerance);
}

std::vector<std::string> WithSharedNorms(const std::string& bits) {
  return {"exchange.codec=qsgd_shared", "exchange.qsgd_shared.bits=" + bits,
          "exchange.scaler_elements=" + std::to_string(kGroup)};
}

TEST(SsgdWithSharedNorms, AddsTheExactMeanOfTheCodes) {
  const auto job = MakeJob("ssgd", WithSharedNorms("3"));
  EXPECT_LT(DistanceOfSsgd(*job, {.levels = 3, .shares_norms = true}), kTolerance);
  EXPECT_GT(DistanceOfSsgd(*job, {.levels = 3, .shares_norms = false}), 1000 * kTolerance);
}

TEST(PqasgdWithSharedNorms, AddsTheExactMeanOfTheCodes) {
  for (const auto& [bits, levels] : {std::pair{"2", 1.0}, {"8", 127.0}}) {
    const auto job = MakeJob("pqasgd", WithPlainSgd(WithSharedNorms(bits)));
    EXPECT_LT(DistanceOfPqasgd(*job, {.levels = levels, .shares_norms = true}), kTolerance) << bits;
  }
}

}  // namespace
}  // namespace tern::client
