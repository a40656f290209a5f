// Tests of algorithms with rounds whose gradients, or changes of weights, are quantized. A
// reference quantizes in double precision what each worker pushes, with the random numbers of the
// job, and adds the means of the quantized values, as the papers' algorithms say. The weights of
// the workers must be close to those of the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

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

// What the codes of the workers' changes, by rank, add up to in a round: their mean.
using MeanOfCodes =
    std::function<Vector(uint64_t round, const std::vector<std::vector<float>>& changes)>;

// Runs a job of pqasgd with plain SGD and p = 5: Algorithm 2 of PQASGD, whose lines 8 and 9 add the
// mean of the workers' quantized changes. `outer`: the optimizer that adds it.
double DistanceOfPqasgd(const setup::Setup& job, const MeanOfCodes& mean_of_codes,
                        OuterReference outer = {}) {
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
    outer.AddChange(mean_of_codes(round, x), &w);
    distance = std::max(distance, LargestDistance(traces, round, w));
    common_weights = traces[0].weights_after_round.at(round);
  }
  return distance;
}

double DistanceOfPqasgd(const setup::Setup& job, const Quantizer& quantizer,
                        const OuterReference& outer = {}) {
  return DistanceOfPqasgd(
      job,
      [&](uint64_t round, const auto& changes) {
        return MeanOf(quantizer.Apply(job, round, changes));
      },
      outer);
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

TEST(PqasgdWithSharedNorms, AddsTheExactMeanWithAnOuterOptimizer) {
  for (const OuterCase& c : OuterCases("pqasgd")) {
    auto overrides = WithPlainSgd(WithSharedNorms("3"));
    overrides.insert(overrides.end(), c.settings.begin(), c.settings.end());
    const auto job = MakeJob("pqasgd", overrides);
    const Quantizer quantizer{.levels = 3, .shares_norms = true};
    EXPECT_LT(DistanceOfPqasgd(*job, quantizer, c.reference), kTolerance) << c.name;
    EXPECT_GT(DistanceOfPqasgd(*job, quantizer), 1000 * kTolerance) << c.name;
  }
}

// Codes v = x + r, x the values and r what the code of the last v left out, which it then keeps.
Vector CodeWithFeedback(const Vector& x, const std::function<Vector(const Vector&)>& code,
                        Vector* r) {
  r->resize(x.size());
  Vector v = x;
  for (size_t k = 0; k < v.size(); ++k) v[k] += (*r)[k];
  Vector sent = code(v);
  for (size_t k = 0; k < v.size(); ++k) (*r)[k] = v[k] - sent[k];
  return sent;
}

// Calls `visit` with each tensor's range of elements.
void ForEachTensor(const setup::Setup& job,
                   const std::function<void(uint64_t begin, uint64_t end)>& visit) {
  for (uint32_t t = 0; t < job.plan.tensor_count.size(); ++t)
    visit(job.plan.tensor_begin[t], job.plan.tensor_begin[t] + job.plan.tensor_count[t]);
}

// The elements that topk sends: the `share` of each tensor with the largest magnitudes.
Vector LargestOf(const setup::Setup& job, double share, const Vector& v) {
  Vector sent(v.size());
  ForEachTensor(job, [&](uint64_t begin, uint64_t end) {
    Vector magnitudes;
    for (uint64_t k = begin; k < end; ++k) magnitudes.push_back(std::abs(v[k]));
    std::sort(magnitudes.rbegin(), magnitudes.rend());
    const auto num_sent =
        static_cast<size_t>(std::ceil(share * static_cast<double>(magnitudes.size())));
    for (uint64_t k = begin; k < end; ++k)
      if (std::abs(v[k]) >= magnitudes[num_sent - 1]) sent[k] = v[k];
  });
  return sent;
}

// The code of onebit: in each group, the mean of the negative elements, and that of the others.
Vector MeansBySign(const setup::Setup& job, const Vector& v) {
  Vector sent(v.size());
  ForEachTensor(job, [&](uint64_t tensor_begin, uint64_t tensor_end) {
    for (uint64_t begin = tensor_begin; begin < tensor_end; begin += kGroup) {
      const uint64_t end = std::min(begin + kGroup, tensor_end);
      double sums[2] = {}, counts[2] = {};
      for (uint64_t k = begin; k < end; ++k) sums[v[k] < 0] += v[k], counts[v[k] < 0] += 1;
      for (uint64_t k = begin; k < end; ++k) sent[k] = sums[v[k] < 0] / counts[v[k] < 0];
    }
  });
  return sent;
}

std::vector<std::string> WithFeedback(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"train.pqasgd.feedback=true", "train.pqasgd.outer.name=sgd",
                                     "train.pqasgd.outer.learning_rate=0.8"});
  return WithPlainSgd(overrides);
}
const OuterReference kOuterOfFeedback = {.rate = 0.8};

TEST(PqasgdWithFeedback, SendsLaterWhatTopKLeftOut) {
  constexpr double kShare = 0.25;
  const auto job = MakeJob(
      "pqasgd", WithFeedback({"exchange.codec=topk", "exchange.topk.ratio=0.25",
                              "exchange.topk.sample_ratio=1", "exchange.topk.warmup_rounds=0"}));
  const auto distance_with = [&](bool keeps_memory) {
    std::vector<Vector> memories(kWorkers);
    return DistanceOfPqasgd(
        *job,
        [&](uint64_t, const std::vector<std::vector<float>>& changes) {
          std::vector<Vector> sent;
          for (uint32_t i = 0; i < kWorkers; ++i) {
            if (!keeps_memory) memories[i].clear();
            sent.push_back(CodeWithFeedback(
                {changes[i].begin(), changes[i].end()},
                [&](const Vector& v) { return LargestOf(*job, kShare, v); }, &memories[i]));
          }
          return MeanOf(sent);
        },
        kOuterOfFeedback);
  };
  EXPECT_LT(distance_with(true), kTolerance);
  EXPECT_GT(distance_with(false), 100 * kTolerance);
}

// The server codes the mean again, and has a memory of its own.
TEST(PqasgdWithFeedback, SendsLaterWhatOneBitLeftOutBothWays) {
  const auto job =
      MakeJob("pqasgd", WithFeedback({"exchange.codec=onebit", "exchange.onebit.bucket_elements=" +
                                                                   std::to_string(kGroup)}));
  const auto code = [&](const Vector& v) { return MeansBySign(*job, v); };
  std::vector<Vector> memories(kWorkers + 1);
  const double distance = DistanceOfPqasgd(
      *job,
      [&](uint64_t, const std::vector<std::vector<float>>& changes) {
        std::vector<Vector> sent;
        for (uint32_t i = 0; i < kWorkers; ++i)
          sent.push_back(
              CodeWithFeedback({changes[i].begin(), changes[i].end()}, code, &memories[i]));
        return CodeWithFeedback(MeanOf(sent), code, &memories[kWorkers]);
      },
      kOuterOfFeedback);
  EXPECT_LT(distance, kTolerance);
}

}  // namespace
}  // namespace tern::client
