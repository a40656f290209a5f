#include "kernels/optimizer.h"

#include <algorithm>
#include <bit>

#include "tests/kernels/on_target.h"

namespace tern::kernels {
namespace {

class OptimizerOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(OptimizerOnTarget);

constexpr float kRate = 0.03f;
constexpr float kMomentum = 0.9f;
constexpr float kDecay = 5e-4f;

// One rounding an operation: what each rule must give, bit for bit. `volatile` keeps the compiler
// from joining two of them.
float Times(float a, float b) {
  volatile float product = a * b;
  return product;
}

float Plus(float a, float b) {
  volatile float sum = a + b;
  return sum;
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i])) << i;
  }
}

TEST_P(OptimizerOnTarget, AddsDecayBitForBitAndInPlace) {
  for (const size_t n : Lengths()) {
    const std::vector<float> g = Gaussian(n, n), w = Gaussian(n, n + 1);
    std::vector<float> expected(n), out(n), in_place = g;
    for (size_t i = 0; i < n; ++i) expected[i] = Plus(g[i], Times(kDecay, w[i]));
    AddDecay(g.data(), w.data(), n, kDecay, out.data());
    AddDecay(in_place.data(), w.data(), n, kDecay, in_place.data());
    ExpectSameBits(out, expected);
    ExpectSameBits(in_place, expected);
  }
}

TEST_P(OptimizerOnTarget, SgdFollowsTheRuleBitForBit) {
  for (const size_t n : Lengths()) {
    for (const float decay : {0.0f, kDecay}) {
      const std::vector<float> g = Gaussian(n, n);
      std::vector<float> w = Gaussian(n, n + 1), expected(n);
      for (size_t i = 0; i < n; ++i) {
        expected[i] = Plus(w[i], -Times(kRate, Plus(g[i], Times(decay, w[i]))));
      }
      SgdUpdate(w.data(), g.data(), n, kRate, decay);
      ExpectSameBits(w, expected);
    }
  }
}

TEST_P(OptimizerOnTarget, MomentumFollowsTheRuleBitForBit) {
  for (const size_t n : Lengths()) {
    for (const float decay : {0.0f, kDecay}) {
      const std::vector<float> g = Gaussian(n, n);
      std::vector<float> w = Gaussian(n, n + 1), v = Gaussian(n, n + 2);
      std::vector<float> expected_w(n), expected_v(n);
      for (size_t i = 0; i < n; ++i) {
        expected_v[i] = Plus(Times(kMomentum, v[i]), Plus(g[i], Times(decay, w[i])));
        expected_w[i] = Plus(w[i], -Times(kRate, expected_v[i]));
      }
      MomentumUpdate(w.data(), v.data(), g.data(), n, kRate, kMomentum, decay);
      ExpectSameBits(v, expected_v);
      ExpectSameBits(w, expected_w);
    }
  }
}

TEST_P(OptimizerOnTarget, EmaFollowsTheRuleBitForBit) {
  for (const size_t n : Lengths()) {
    const std::vector<float> w = Gaussian(n, n);
    std::vector<float> average = Gaussian(n, n + 1), expected(n);
    for (size_t i = 0; i < n; ++i) {
      expected[i] = Plus(average[i], -Times(0.01f, Plus(average[i], -w[i])));
    }
    EmaUpdate(average.data(), w.data(), n, 0.01f);
    ExpectSameBits(average, expected);
  }
}

TEST_P(OptimizerOnTarget, FollowsDoublePrecisionOverManySteps) {
  constexpr size_t kN = 300;
  constexpr int kSteps = 200;
  std::vector<float> w = Gaussian(kN, 1), v(kN), sgd = w, average = w;
  std::vector<double> w64(w.begin(), w.end()), v64(kN), sgd64 = w64, average64 = w64;
  const double rate = kRate, momentum = kMomentum, decay = kDecay, kept = 0.01f;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<float> g = Gaussian(kN, 100 + static_cast<uint64_t>(step));
    MomentumUpdate(w.data(), v.data(), g.data(), kN, kRate, kMomentum, kDecay);
    SgdUpdate(sgd.data(), g.data(), kN, kRate, kDecay);
    EmaUpdate(average.data(), w.data(), kN, 0.01f);
    for (size_t i = 0; i < kN; ++i) {
      v64[i] = momentum * v64[i] + g[i] + decay * w64[i];
      w64[i] -= rate * v64[i];
      sgd64[i] -= rate * (g[i] + decay * sgd64[i]);
      average64[i] = (1 - kept) * average64[i] + kept * w64[i];
    }
  }
  for (size_t i = 0; i < kN; ++i) {
    EXPECT_NEAR(w[i], w64[i], 1e-4);
    EXPECT_NEAR(sgd[i], sgd64[i], 1e-5);
    EXPECT_NEAR(average[i], average64[i], 1e-4);
  }
}

}  // namespace
}  // namespace tern::kernels
