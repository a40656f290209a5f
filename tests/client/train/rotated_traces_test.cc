// Tests of ssgd with ternary codes of rotated gradients. A reference in double precision rotates
// the gradients by the definition of kernels/codes/rotate.h, codes them with the random numbers of
// the job (TernGrad, Algorithm 1), rotates the mean of the codes back, and makes momentum steps.
// The weights of the workers must be close to those of the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/codes/philox.h"
#include "tests/client/train/reference.h"

namespace tern::client {
namespace {

constexpr uint64_t kBlock = 64;

// -1 or +1: what multiplies element `i` of tensor t.
double SignOf(const setup::Setup& job, uint32_t t, uint64_t i) {
  const kernels::NoiseKey key{
      .seed = job.job.seed(), .stream = kernels::NoiseStream::kRotation, .tensor = t};
  const auto words = kernels::NoiseBlock(key, static_cast<uint32_t>(i / 128), 0);
  return (words[i % 128 / 32] >> i % 32 & 1) != 0 ? -1 : 1;
}

// H x / sqrt(n).
Vector Hadamard(const Vector& x) {
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < x.size(); ++j)
      y[i] += (std::popcount(i & j) % 2 == 1 ? -x[j] : x[j]) / std::sqrt(double(x.size()));
  return y;
}

// Rotates a vector as long as the model, each tensor by itself, or rotates it back.
Vector Rotate(const setup::Setup& job, const Vector& all, bool back) {
  Vector result(all.size());
  for (uint32_t t = 0; t < job.plan.tensor_count.size(); ++t) {
    const uint64_t begin = job.plan.tensor_begin[t], count = job.plan.tensor_count[t];
    for (uint64_t at = 0, n = 0; at < count; at += n) {
      n = std::bit_floor(std::min(kBlock, count - at));
      Vector block(n);
      for (uint64_t i = 0; i < n; ++i)
        block[i] = all[begin + at + i] * (back ? 1 : SignOf(job, t, at + i));
      block = Hadamard(block);
      for (uint64_t i = 0; i < n; ++i)
        result[begin + at + i] = block[i] * (back ? SignOf(job, t, at + i) : 1);
    }
  }
  return result;
}

// The scaler of a tensor's values: the largest magnitude, but at most 2.5 standard deviations
// (TernGrad, equation 9).
double ScalerOf(const double* v, uint64_t n) {
  double sum = 0, squares = 0, largest = 0;
  for (uint64_t i = 0; i < n; ++i) {
    sum += v[i];
    squares += v[i] * v[i];
    largest = std::max(largest, std::abs(v[i]));
  }
  const double mean = sum / double(n), variance = squares / double(n) - mean * mean;
  return variance > 0 ? std::min(largest, 2.5 * std::sqrt(variance)) : largest;
}

// What the ternary codes of the values, by rank, stand for. The workers share their scalers.
std::vector<Vector> Ternarized(const setup::Setup& job, uint64_t round,
                               const std::vector<Vector>& values) {
  std::vector<Vector> codes(values.size(), Vector(job.table.total));
  for (uint32_t t = 0; t < job.plan.tensor_count.size(); ++t) {
    const uint64_t begin = job.plan.tensor_begin[t], count = job.plan.tensor_count[t];
    double scaler = 0;
    std::vector<double> clips;
    for (const Vector& v : values) {
      clips.push_back(ScalerOf(&v[begin], count));
      scaler = std::max(scaler, clips.back());
    }
    for (uint32_t rank = 0; rank < values.size(); ++rank) {
      const kernels::NoiseKey key{job.job.seed(), kernels::NoiseStream::kCodes,
                                  static_cast<uint16_t>(rank), round, t};
      for (uint64_t i = 0; i < count; ++i) {
        const double v = values[rank][begin + i];
        const double probability = std::min(std::abs(v), clips[rank]) / scaler;
        if (kernels::Draw32(key, i) < std::floor(probability * 0x1p32))
          codes[rank][begin + i] = std::copysign(scaler, v);
      }
    }
  }
  return codes;
}

// Runs a job, and returns the largest distance of its weights from the reference, which computes
// the gradients at the weights at which the workers computed them. `rotates`: the reference does.
double DistanceOfSsgd(const setup::Setup& job, bool rotates) {
  const auto traces = RunCluster(job, {kSteps});
  Vector w = InitialWeights(job), v;
  double distance = 0;
  for (uint64_t step = 1; step <= kSteps; ++step) {
    std::vector<Vector> values;
    for (uint32_t i = 0; i < kWorkers; ++i) {
      const std::vector<float>& point = traces[i].points[step - 1];
      std::vector<float> g(point.size());
      AnalyticGradient(i, step, point.data(), point.size(), g.data());
      const Vector gradient(g.begin(), g.end());
      values.push_back(rotates ? Rotate(job, gradient, false) : gradient);
    }
    const Vector mean = MeanOf(Ternarized(job, step, values));
    MomentumStep(rotates ? Rotate(job, mean, true) : mean, kRate, kMomentum, &v, &w);
    for (const Trace& trace : traces) {
      EXPECT_EQ(trace.weights_after_round.at(step), traces[0].weights_after_round.at(step));
      distance = std::max(distance, RelativeDistance(trace.weights_after_round.at(step), w));
    }
  }
  return distance;
}

TEST(SsgdWithRotation, AddsTheMeanOfCodesOfRotatedGradients) {
  const auto job = MakeJob("ssgd", {"exchange.codec=ternary", "exchange.rotate=64"});
  EXPECT_LT(DistanceOfSsgd(*job, true), kTolerance);
  EXPECT_GT(DistanceOfSsgd(*job, false), 1000 * kTolerance) << "the test sees no rotation";
}

// The test's reference agrees with the job without a rotation, too, so that only the rotation
// makes the difference above.
TEST(SsgdWithoutRotation, AddsTheMeanOfCodesOfGradients) {
  const auto job = MakeJob("ssgd", {"exchange.codec=ternary"});
  EXPECT_LT(DistanceOfSsgd(*job, false), kTolerance);
}

}  // namespace
}  // namespace tern::client
