// Tests of the random initial values of parameters, and of the functions that compute them.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/codes/philox.h"
#include "models/graph/normal.h"
#include "models/graph/shapes.h"

namespace tern::models {
namespace {

Parameter MakeParameter(uint64_t count, uint64_t fan_in, const pb::Init& init) {
  Parameter parameter;
  parameter.count = count;
  parameter.fan_in = fan_in;
  parameter.init = init;
  return parameter;
}

ParameterTable TableOf(std::vector<Parameter> parameters) {
  ParameterTable table;
  for (Parameter& parameter : parameters) {
    parameter.offset = table.total;
    table.total += parameter.count;
    table.parameters.push_back(parameter);
  }
  return table;
}

// Returns the initial values of all parameters of the table.
std::vector<float> InitialValues(const ParameterTable& table, uint64_t seed) {
  std::vector<float> arena(table.total, NAN);
  InitParameters(table, seed, arena.data());
  return arena;
}

pb::Init Xavier() {
  pb::Init init;
  init.mutable_xavier();
  return init;
}
pb::Init Normal(float std) {
  pb::Init init;
  init.set_normal_std(std);
  return init;
}
pb::Init Truncated(float std) {
  pb::Init init;
  init.set_truncated_normal_std(std);
  return init;
}

struct Moments {
  double mean = 0, std = 0, largest = 0, kurtosis = 0;
};

Moments MomentsOf(const std::vector<float>& x) {
  Moments m;
  for (float v : x) m.mean += v / static_cast<double>(x.size());
  double second = 0, fourth = 0;
  for (float v : x) {
    const double d = v - m.mean;
    second += d * d;
    fourth += d * d * d * d;
    m.largest = std::max(m.largest, std::fabs(static_cast<double>(v)));
  }
  second /= static_cast<double>(x.size());
  m.std = std::sqrt(second);
  m.kurtosis = fourth / static_cast<double>(x.size()) / (second * second);
  return m;
}

constexpr uint64_t kManyElements = 1'000'000;

TEST(InitParameters, XavierIsUniformWithinItsBound) {
  const Moments m =
      MomentsOf(InitialValues(TableOf({MakeParameter(kManyElements, 75, Xavier())}), 5));
  const double a = std::sqrt(3.0 / 75);
  EXPECT_LE(m.largest, a);
  EXPECT_GT(m.largest, 0.9999 * a);
  EXPECT_NEAR(m.mean, 0, 5 * a / std::sqrt(3.0 * kManyElements));
  EXPECT_NEAR(m.std, a / std::sqrt(3.0), 0.002 * a);
  EXPECT_NEAR(m.kurtosis, 1.8, 0.01);
}

TEST(InitParameters, NormalHasItsMoments) {
  const Moments m =
      MomentsOf(InitialValues(TableOf({MakeParameter(kManyElements, 1, Normal(0.5f))}), 5));
  EXPECT_NEAR(m.mean, 0, 5 * 0.5 / 1000);
  EXPECT_NEAR(m.std, 0.5, 0.002);
  EXPECT_NEAR(m.kurtosis, 3, 0.03);
  EXPECT_GT(m.largest, 0.5 * 4);
}

TEST(InitParameters, TruncatedNormalStaysWithinTwoStd) {
  const Moments m =
      MomentsOf(InitialValues(TableOf({MakeParameter(kManyElements, 1, Truncated(0.5f))}), 5));
  EXPECT_LE(m.largest, 1.0);
  EXPECT_GT(m.largest, 0.9999);
  EXPECT_NEAR(m.mean, 0, 5 * 0.44 / 1000);
  // A standard normal distribution truncated at 2 has the variance 1 - 4 phi(2) / (2 Phi(2) - 1) =
  // 0.7737, where phi is its density and Phi its distribution function.
  EXPECT_NEAR(m.std, 0.5 * std::sqrt(0.773741), 0.001);
}

TEST(InitParameters, ConstantIsConstant) {
  pb::Init init;
  init.set_constant(0.1f);
  for (float v : InitialValues(TableOf({MakeParameter(9, 1, init)}), 5)) EXPECT_EQ(v, 0.1f);
}

// The expected values were computed by an independent implementation, in another language, of the
// random generator Philox and of the normal quantile.
TEST(InitParameters, MatchesGoldenValues) {
  const std::vector<float> a =
      InitialValues(TableOf({MakeParameter(500, 25, Xavier()), MakeParameter(3, 1, Xavier()),
                             MakeParameter(500, 1, Normal(0.05f))}),
                    0x0123456789abcdef);
  const std::vector<float> b =
      InitialValues(TableOf({MakeParameter(500, 25, Truncated(0.05f))}), 0x0123456789abcdef);
  const size_t indices[] = {0, 1, 2, 7, 8, 499};
  const float uniform[] = {-0x1.119fdcp-6f, -0x1.370d3ep-5f, -0x1.446baep-6f,
                           0x1.b24ee8p-5f,  -0x1.42407cp-3f, -0x1.1fc296p-2f};
  const float truncated[] = {-0x1.7a2ea2p-9f, -0x1.aee954p-8f, -0x1.c07d5ap-9f,
                             0x1.2da99ep-7f,  -0x1.d5a6aep-6f, -0x1.f03f3cp-5f};
  const float normal[] = {0x1.76ddeep-5f, -0x1.5c27b2p-6f, 0x1.e4803ap-10f,
                          0x1.f2bb2cp-7f, 0x1.4500aap-9f,  0x1.833272p-5f};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(a[indices[i]], uniform[i]) << indices[i];
    EXPECT_EQ(b[indices[i]], truncated[i]) << indices[i];
    EXPECT_EQ(a[503 + indices[i]], normal[i]) << indices[i];
  }
}

TEST(InitParameters, EachElementUsesItsOwnDraw) {
  const std::vector<float> values = InitialValues(TableOf({MakeParameter(37, 3, Xavier())}), 9);
  const kernels::NoiseKey key = {
      .seed = 9, .stream = kernels::NoiseStream::kInit, .rank = 0, .round = 0, .tensor = 0};
  for (uint64_t e = 0; e < values.size(); ++e) {
    const double u = (kernels::Draw32(key, e) + 0.5) / 4294967296.0;
    EXPECT_EQ(values[e], static_cast<float>(2 * u - 1)) << e;
  }
}

TEST(InitParameters, SeedsAndTensorsDiffer) {
  const ParameterTable table =
      TableOf({MakeParameter(100, 3, Xavier()), MakeParameter(100, 3, Xavier())});
  const std::vector<float> first = InitialValues(table, 1);
  EXPECT_EQ(first, InitialValues(table, 1));
  EXPECT_NE(first, InitialValues(table, 2));
  EXPECT_NE(first, InitialValues(table, 1 + (uint64_t{1} << 32)));
  EXPECT_FALSE(std::equal(first.begin(), first.begin() + 100, first.begin() + 100));
}

TEST(NormalQuantile, InvertsTheNormalDistribution) {
  for (double p : {1e-300, 1e-30, 1e-10, 2.3e-10, 1e-6, 0.001, 0.02425, 0.0749, 0.0751, 0.25, 0.4,
                   0.5, 0.6, 0.9249, 0.9251, 0.999}) {
    const double back = 0.5 * std::erfc(-NormalQuantile(p) / std::sqrt(2.0));
    EXPECT_NEAR(back / p, 1, 1e-12) << p;
  }
  EXPECT_EQ(NormalQuantile(0.5), 0);
  EXPECT_EQ(NormalQuantile(0.25), -NormalQuantile(0.75));
}

TEST(PortableLog, AgreesWithLibmToTheLastBits) {
  for (double x = 1e-300; x < 1e300; x *= 1.37) {
    EXPECT_NEAR(PortableLog(x), std::log(x), 4e-16 * std::fabs(std::log(x))) << x;
  }
  for (double x = 0.5; x < 2; x += 0.00037) {
    EXPECT_NEAR(PortableLog(x), std::log(x), 4e-16 * (std::fabs(std::log(x)) + 0.1)) << x;
  }
  EXPECT_EQ(PortableLog(1), 0);
}

}  // namespace
}  // namespace tern::models
