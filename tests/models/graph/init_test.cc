// Tests of the random initial values of parameters, and of the functions that compute them.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

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
    parameter.number = static_cast<uint32_t>(table.parameters.size());
    parameter.offset = table.total;
    table.total += parameter.count;
    table.parameters.push_back(parameter);
  }
  return table;
}

// Returns the initial values of all parameters of the table.
std::vector<float> InitialValues(const ParameterTable& table, uint64_t seed) {
  std::vector<float> values(table.total, NAN);
  InitParameters(table, seed, values.data());
  return values;
}

pb::Init XavierInit() {
  pb::Init init;
  init.mutable_xavier();
  return init;
}
pb::Init NormalInit(float deviation) {
  pb::Init init;
  init.set_normal_std(deviation);
  return init;
}
pb::Init TruncatedNormalInit(float deviation) {
  pb::Init init;
  init.set_truncated_normal_std(deviation);
  return init;
}

struct Moments {
  double mean = 0, deviation = 0, max_magnitude = 0, kurtosis = 0;
};

Moments MomentsOf(const std::vector<float>& x) {
  Moments m;
  for (float v : x) m.mean += v / static_cast<double>(x.size());
  double second_moment = 0, fourth_moment = 0;
  for (float v : x) {
    const double difference = v - m.mean;
    second_moment += difference * difference;
    fourth_moment += difference * difference * difference * difference;
    m.max_magnitude = std::max(m.max_magnitude, std::fabs(static_cast<double>(v)));
  }
  second_moment /= static_cast<double>(x.size());
  m.deviation = std::sqrt(second_moment);
  m.kurtosis = fourth_moment / static_cast<double>(x.size()) / (second_moment * second_moment);
  return m;
}

constexpr uint64_t kManyElements = 1'000'000;

TEST(InitParameters, XavierIsUniformWithinItsBound) {
  const Moments m =
      MomentsOf(InitialValues(TableOf({MakeParameter(kManyElements, 75, XavierInit())}), 5));
  const double bound = std::sqrt(3.0 / 75);
  EXPECT_LE(m.max_magnitude, bound);
  EXPECT_GT(m.max_magnitude, 0.9999 * bound);
  EXPECT_NEAR(m.mean, 0, 5 * bound / std::sqrt(3.0 * kManyElements));
  EXPECT_NEAR(m.deviation, bound / std::sqrt(3.0), 0.002 * bound);
  EXPECT_NEAR(m.kurtosis, 1.8, 0.01);
}

TEST(InitParameters, NormalHasItsMoments) {
  const Moments m =
      MomentsOf(InitialValues(TableOf({MakeParameter(kManyElements, 1, NormalInit(0.5f))}), 5));
  EXPECT_NEAR(m.mean, 0, 5 * 0.5 / 1000);
  EXPECT_NEAR(m.deviation, 0.5, 0.002);
  EXPECT_NEAR(m.kurtosis, 3, 0.03);
  EXPECT_GT(m.max_magnitude, 0.5 * 4);
}

TEST(InitParameters, TruncatedNormalStaysWithinTwoStd) {
  const Moments m = MomentsOf(
      InitialValues(TableOf({MakeParameter(kManyElements, 1, TruncatedNormalInit(0.5f))}), 5));
  EXPECT_LE(m.max_magnitude, 1.0);
  EXPECT_GT(m.max_magnitude, 0.9999);
  EXPECT_NEAR(m.mean, 0, 5 * 0.44 / 1000);
  // A standard normal distribution truncated at -2 and 2 has the variance
  // 1 - 4 phi(2) / (2 Phi(2) - 1) = 0.7737, where phi and Phi are the density and the distribution
  // function of the standard normal distribution.
  EXPECT_NEAR(m.deviation, 0.5 * std::sqrt(0.773741), 0.001);
}

TEST(InitParameters, ConstantIsConstant) {
  pb::Init init;
  init.set_constant(0.1f);
  for (float v : InitialValues(TableOf({MakeParameter(9, 1, init)}), 5)) EXPECT_EQ(v, 0.1f);
}

TEST(InitParameters, DiracCopiesInputsAndDrawsTheRest) {
  pb::Init init;
  init.mutable_dirac();
  Parameter parameter = MakeParameter(5 * 3 * 3 * 2, 3 * 3 * 2, init);
  parameter.shape = {5, 3, 3, 2};  // 5 outputs, 3 inputs, a kernel of 3 x 2 with its middle at 1, 1
  const std::vector<float> values = InitialValues(TableOf({parameter}), 5);
  for (size_t i = 0; i < 3 * 18; ++i) {
    const size_t output = i / 18, input = i % 18 / 6;
    EXPECT_EQ(values[i], output == input && i % 6 == 3 ? 1 : 0) << i;
  }
  std::set<float> drawn;
  for (size_t i = 3 * 18; i < 5 * 18; ++i) {
    EXPECT_LE(std::fabs(values[i]), 1 / std::sqrt(18.f)) << i;
    drawn.insert(values[i]);
  }
  EXPECT_EQ(drawn.size(), 2 * 18);
  parameter.shape = {4, 9};  // a dense layer with fewer outputs than inputs
  parameter.count = 36, parameter.fan_in = 9;
  const std::vector<float> dense = InitialValues(TableOf({parameter}), 5);
  for (size_t i = 0; i < 36; ++i) EXPECT_EQ(dense[i], i / 9 == i % 9 ? 1 : 0) << i;
}

// The expected values were computed by an independent implementation, in another language, of the
// random generator Philox and of the normal quantile.
TEST(InitParameters, MatchesGoldenValues) {
  const std::vector<float> values = InitialValues(
      TableOf({MakeParameter(500, 25, XavierInit()), MakeParameter(3, 1, XavierInit()),
               MakeParameter(500, 1, NormalInit(0.05f))}),
      0x0123456789abcdef);
  const std::vector<float> truncated_values = InitialValues(
      TableOf({MakeParameter(500, 25, TruncatedNormalInit(0.05f))}), 0x0123456789abcdef);
  const size_t indices[] = {0, 1, 2, 7, 8, 499};
  const float expected_uniform[] = {-0x1.119fdcp-6f, -0x1.370d3ep-5f, -0x1.446baep-6f,
                                    0x1.b24ee8p-5f,  -0x1.42407cp-3f, -0x1.1fc296p-2f};
  const float expected_truncated[] = {-0x1.7a2ea2p-9f, -0x1.aee954p-8f, -0x1.c07d5ap-9f,
                                      0x1.2da99ep-7f,  -0x1.d5a6aep-6f, -0x1.f03f3cp-5f};
  const float expected_normal[] = {0x1.76ddeep-5f, -0x1.5c27b2p-6f, 0x1.e4803ap-10f,
                                   0x1.f2bb2cp-7f, 0x1.4500aap-9f,  0x1.833272p-5f};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(values[indices[i]], expected_uniform[i]) << indices[i];
    EXPECT_EQ(truncated_values[indices[i]], expected_truncated[i]) << indices[i];
    EXPECT_EQ(values[503 + indices[i]], expected_normal[i]) << indices[i];
  }
}

TEST(InitParameters, EachElementUsesItsOwnDraw) {
  const std::vector<float> values = InitialValues(TableOf({MakeParameter(37, 3, XavierInit())}), 9);
  const kernels::NoiseKey key = {
      .seed = 9, .stream = kernels::NoiseStream::kInit, .rank = 0, .round = 0, .tensor = 0};
  for (uint64_t e = 0; e < values.size(); ++e) {
    const double uniform = (kernels::Draw32(key, e) + 0.5) / 4294967296.0;
    EXPECT_EQ(values[e], static_cast<float>(2 * uniform - 1)) << e;
  }
}

TEST(InitParameters, SeedsAndTensorsDiffer) {
  const ParameterTable table =
      TableOf({MakeParameter(100, 3, XavierInit()), MakeParameter(100, 3, XavierInit())});
  const std::vector<float> values = InitialValues(table, 1);
  EXPECT_EQ(values, InitialValues(table, 1));
  EXPECT_NE(values, InitialValues(table, 2));
  EXPECT_NE(values, InitialValues(table, 1 + (uint64_t{1} << 32)));
  EXPECT_FALSE(std::equal(values.begin(), values.begin() + 100, values.begin() + 100));
}

TEST(NormalQuantile, InvertsTheNormalDistribution) {
  for (double p : {1e-300, 1e-30, 1e-10, 2.3e-10, 1e-6, 0.001, 0.02425, 0.0749, 0.0751, 0.25, 0.4,
                   0.5, 0.6, 0.9249, 0.9251, 0.999}) {
    const double probability = 0.5 * std::erfc(-NormalQuantile(p) / std::sqrt(2.0));
    EXPECT_NEAR(probability / p, 1, 1e-12) << p;
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
