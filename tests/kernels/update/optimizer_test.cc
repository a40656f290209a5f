// Tests that the optimizers' CPU kernels follow their equations bit for bit on every instruction
// set, with one rounding per operation, and stay close to double precision over many steps.
#include "kernels/update/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/update/compensation.h"
#include "tests/kernels/device/on_target.h"
#include "tests/kernels/same_bits.h"

namespace tern::kernels {
namespace {

class OptimizerOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(OptimizerOnTarget);

constexpr float kRate = 0.03f;
constexpr float kMomentum = 0.9f;
constexpr float kDecay = 5e-4f;

// Each of these functions rounds its result to float. `volatile` keeps the compiler from fusing two
// operations into one with a single rounding.
float Multiply(float a, float b) {
  volatile float product = a * b;
  return product;
}

float Add(float a, float b) {
  volatile float sum = a + b;
  return sum;
}

float Divide(float a, float b) {
  volatile float quotient = a / b;
  return quotient;
}

float SquareRoot(float a) {
  volatile float root = std::sqrt(a);
  return root;
}

TEST_P(OptimizerOnTarget, AddsDecayBitForBitAndInPlace) {
  for (const size_t n : Lengths()) {
    const std::vector<float> g = Gaussian(n, n), w = Gaussian(n, n + 1);
    std::vector<float> expected(n), result(n), in_place = g;
    for (size_t i = 0; i < n; ++i) expected[i] = Add(g[i], Multiply(kDecay, w[i]));
    AddDecay(g.data(), w.data(), n, kDecay, result.data());
    AddDecay(in_place.data(), w.data(), n, kDecay, in_place.data());
    ExpectSameBits(result, expected);
    ExpectSameBits(in_place, expected);
  }
}

TEST_P(OptimizerOnTarget, SgdFollowsTheRuleBitForBit) {
  for (const size_t n : Lengths()) {
    for (const float decay : {0.0f, kDecay}) {
      const std::vector<float> g = Gaussian(n, n);
      std::vector<float> w = Gaussian(n, n + 1), expected(n);
      for (size_t i = 0; i < n; ++i) {
        expected[i] = Add(w[i], -Multiply(kRate, Add(g[i], Multiply(decay, w[i]))));
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
        expected_v[i] = Add(Multiply(kMomentum, v[i]), Add(g[i], Multiply(decay, w[i])));
        expected_w[i] = Add(w[i], -Multiply(kRate, expected_v[i]));
      }
      MomentumUpdate(w.data(), v.data(), g.data(), n, kRate, kMomentum, decay);
      ExpectSameBits(v, expected_v);
      ExpectSameBits(w, expected_w);
    }
  }
}

TEST_P(OptimizerOnTarget, ScalesBitForBit) {
  for (const size_t n : Lengths()) {
    std::vector<float> x = Gaussian(n, n), expected(n);
    for (size_t i = 0; i < n; ++i) expected[i] = Multiply(x[i], kRate);
    Scale(x.data(), n, kRate);
    ExpectSameBits(x, expected);
  }
}

TEST_P(OptimizerOnTarget, NesterovFollowsTheRuleBitForBit) {
  for (const size_t n : Lengths()) {
    for (const float decay : {0.0f, kDecay}) {
      const std::vector<float> g = Gaussian(n, n);
      std::vector<float> w = Gaussian(n, n + 1), v = Gaussian(n, n + 2);
      std::vector<float> expected_w(n), expected_v(n);
      for (size_t i = 0; i < n; ++i) {
        const float gradient_with_decay = Add(g[i], Multiply(decay, w[i]));
        expected_v[i] = Add(Multiply(kMomentum, v[i]), gradient_with_decay);
        expected_w[i] = Add(
            w[i], -Multiply(kRate, Add(gradient_with_decay, Multiply(kMomentum, expected_v[i]))));
      }
      NesterovUpdate(w.data(), v.data(), g.data(), n, kRate, kMomentum, decay);
      ExpectSameBits(v, expected_v);
      ExpectSameBits(w, expected_w);
    }
  }
}

TEST_P(OptimizerOnTarget, LarsFollowsTheRuleBitForBit) {
  for (const size_t n : Lengths()) {
    const std::vector<float> g = Gaussian(n, n);
    std::vector<float> w = Gaussian(n, n + 1), v = Gaussian(n, n + 2);
    std::vector<float> expected_w(n), expected_v(n);
    for (size_t i = 0; i < n; ++i) {
      const float scaled_gradient = Multiply(0.013f, Add(g[i], Multiply(kDecay, w[i])));
      expected_v[i] = Add(Multiply(kMomentum, v[i]), scaled_gradient);
      expected_w[i] = Add(w[i], -Multiply(kRate, expected_v[i]));
    }
    LarsUpdate(w.data(), v.data(), g.data(), n, kRate, 0.013f, kMomentum, kDecay);
    ExpectSameBits(v, expected_v);
    ExpectSameBits(w, expected_w);
  }
}

TEST_P(OptimizerOnTarget, AdamFollowsTheRuleBitForBit) {
  const AdamStep step = {0.02f, 1.7f, 0.9f, 0.1f, 0.999f, 0.001f, 1e-8f};
  for (const size_t n : Lengths()) {
    const std::vector<float> g = Gaussian(n, n);
    std::vector<float> w = Gaussian(n, n + 1), m = Gaussian(n, n + 2), v = Gaussian(n, n + 3);
    for (float& x : v) x *= x;
    std::vector<float> expected_w(n), expected_m(n), expected_v(n);
    for (size_t i = 0; i < n; ++i) {
      const float gradient_with_decay = Add(g[i], Multiply(kDecay, w[i]));
      expected_m[i] =
          Add(Multiply(step.beta1, m[i]), Multiply(step.one_minus_beta1, gradient_with_decay));
      expected_v[i] =
          Add(Multiply(step.beta2, v[i]),
              Multiply(step.one_minus_beta2, Multiply(gradient_with_decay, gradient_with_decay)));
      const float denominator = Add(Multiply(SquareRoot(expected_v[i]), step.root), step.epsilon);
      expected_w[i] = Add(w[i], -Multiply(step.rate, Divide(expected_m[i], denominator)));
    }
    AdamUpdate(w.data(), m.data(), v.data(), g.data(), n, step, kDecay);
    ExpectSameBits(m, expected_m);
    ExpectSameBits(v, expected_v);
    ExpectSameBits(w, expected_w);
  }
}

TEST_P(OptimizerOnTarget, RmspropFollowsTheRuleBitForBit) {
  const RmspropStep step = {kRate, kMomentum, 0.8f, 0.2f, 0.01f};
  for (const size_t n : Lengths()) {
    const std::vector<float> g = Gaussian(n, n);
    std::vector<float> w = Gaussian(n, n + 1), v = Gaussian(n, n + 2), s = Gaussian(n, n + 3);
    for (float& x : s) x *= x;
    std::vector<float> expected_w(n), expected_v(n), expected_s(n);
    for (size_t i = 0; i < n; ++i) {
      const float gradient_with_decay = Add(g[i], Multiply(kDecay, w[i]));
      expected_s[i] =
          Add(Multiply(step.rho, s[i]),
              Multiply(step.one_minus_rho, Multiply(gradient_with_decay, gradient_with_decay)));
      const float root = SquareRoot(Add(expected_s[i], step.epsilon));
      expected_v[i] =
          Add(Multiply(step.momentum, v[i]), Multiply(step.lr, Divide(gradient_with_decay, root)));
      expected_w[i] = Add(w[i], -expected_v[i]);
    }
    RmspropUpdate(w.data(), v.data(), s.data(), g.data(), n, step, kDecay);
    ExpectSameBits(s, expected_s);
    ExpectSameBits(v, expected_v);
    ExpectSameBits(w, expected_w);
  }
}

TEST_P(OptimizerOnTarget, CompensatesByAConstantBitForBitAndInPlace) {
  for (const size_t n : Lengths()) {
    const std::vector<float> g = Gaussian(n, n), w = Gaussian(n, n + 1), old_w = Gaussian(n, n + 2);
    std::vector<float> expected(n), result(n), in_place = g;
    for (size_t i = 0; i < n; ++i) {
      const float term = Multiply(Multiply(0.04f, Multiply(g[i], g[i])), Add(w[i], -old_w[i]));
      expected[i] = Add(g[i], term);
    }
    CompensateConstant(g.data(), w.data(), old_w.data(), n, 0.04f, result.data());
    CompensateConstant(in_place.data(), w.data(), old_w.data(), n, 0.04f, in_place.data());
    ExpectSameBits(result, expected);
    ExpectSameBits(in_place, expected);
  }
}

TEST_P(OptimizerOnTarget, CompensatesByTheMeanSquareBitForBitAndInPlace) {
  for (const size_t n : Lengths()) {
    const std::vector<float> g = Gaussian(n, n), w = Gaussian(n, n + 1), old_w = Gaussian(n, n + 2);
    std::vector<float> mean_square = Gaussian(n, n + 3), expected(n), expected_mean_square(n),
                       result(n), in_place = g;
    for (float& x : mean_square) x *= x;
    std::vector<float> mean_square_in_place = mean_square;
    for (size_t i = 0; i < n; ++i) {
      const float square = Multiply(g[i], g[i]);
      expected_mean_square[i] = Add(Multiply(0.95f, mean_square[i]), Multiply(0.05f, square));
      const float lambda = Divide(2.0f, SquareRoot(Add(expected_mean_square[i], 1e-7f)));
      expected[i] = Add(g[i], Multiply(Multiply(lambda, square), Add(w[i], -old_w[i])));
    }
    CompensateAdaptive(g.data(), w.data(), old_w.data(), mean_square.data(), n, 2, 0.95f, 0.05f,
                       result.data());
    CompensateAdaptive(in_place.data(), w.data(), old_w.data(), mean_square_in_place.data(), n, 2,
                       0.95f, 0.05f, in_place.data());
    ExpectSameBits(mean_square, expected_mean_square);
    ExpectSameBits(mean_square_in_place, expected_mean_square);
    ExpectSameBits(result, expected);
    ExpectSameBits(in_place, expected);
  }
}

TEST_P(OptimizerOnTarget, EmaFollowsTheRuleBitForBit) {
  for (const size_t n : Lengths()) {
    const std::vector<float> w = Gaussian(n, n);
    std::vector<float> average = Gaussian(n, n + 1), expected(n);
    for (size_t i = 0; i < n; ++i) {
      expected[i] = Add(average[i], -Multiply(0.01f, Add(average[i], -w[i])));
    }
    EmaUpdate(average.data(), w.data(), n, 0.01f);
    ExpectSameBits(average, expected);
  }
}

TEST_P(OptimizerOnTarget, FollowsDoublePrecisionOverManySteps) {
  constexpr size_t kN = 300;
  constexpr int kNumSteps = 200;
  std::vector<float> w = Gaussian(kN, 1), v(kN), sgd_w = w, average = w;
  std::vector<double> w64(w.begin(), w.end()), v64(kN), sgd_w64 = w64, average64 = w64;
  const double rate = kRate, momentum = kMomentum, decay = kDecay, ema_weight = 0.01f;
  for (int step = 0; step < kNumSteps; ++step) {
    const std::vector<float> g = Gaussian(kN, 100 + static_cast<uint64_t>(step));
    MomentumUpdate(w.data(), v.data(), g.data(), kN, kRate, kMomentum, kDecay);
    SgdUpdate(sgd_w.data(), g.data(), kN, kRate, kDecay);
    EmaUpdate(average.data(), w.data(), kN, 0.01f);
    for (size_t i = 0; i < kN; ++i) {
      v64[i] = momentum * v64[i] + g[i] + decay * w64[i];
      w64[i] -= rate * v64[i];
      sgd_w64[i] -= rate * (g[i] + decay * sgd_w64[i]);
      average64[i] = (1 - ema_weight) * average64[i] + ema_weight * w64[i];
    }
  }
  for (size_t i = 0; i < kN; ++i) {
    EXPECT_NEAR(w[i], w64[i], 1e-4);
    EXPECT_NEAR(sgd_w[i], sgd_w64[i], 1e-5);
    EXPECT_NEAR(average[i], average64[i], 1e-4);
  }
}

}  // namespace
}  // namespace tern::kernels
