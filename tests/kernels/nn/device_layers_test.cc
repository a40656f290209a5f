// Tests of GPU kernels of layers (column sums, batch norm, weight gradients of convolutions), most
// on so many rows that a thread processes several rows, and that several threads add to one sum.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <string>

#include "kernels/nn/batch_norm.h"
#include "kernels/nn/column_sums.h"
#include "kernels/nn/conv.h"
#include "kernels/nn/device_images.h"
#include "kernels/nn/elementwise.h"
#include "tests/kernels/device/device_array.h"
#include "tests/kernels/nn/typed_array.h"

namespace tern::kernels {
namespace {

std::vector<float> NormalsAround(size_t n, float mean, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(mean, 1);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// Memory for sums of columns. Expects that launches leave all counters at zero.
class SumsMemory {
 public:
  SumsMemory(uint64_t rows, uint32_t channels)
      : partial_sums_(PartialSumsOf(rows, channels)),
        counters_(std::vector<uint32_t>(CountersOf(channels))) {}
  ~SumsMemory() {
    for (const uint32_t counter : counters_.Read()) EXPECT_EQ(counter, 0);
  }
  SumsMemory(const SumsMemory&) = delete;
  SumsMemory& operator=(const SumsMemory&) = delete;

  ColumnWorkspace workspace() { return {partial_sums_.data(), counters_.data()}; }

 private:
  DeviceArray<double> partial_sums_;
  DeviceArray<uint32_t> counters_;
};

// The sums of the columns of x, and of their squares.
class ColumnMoments {
 public:
  ColumnMoments(DeviceType type, const void* x, uint64_t rows, uint32_t channels)
      // The workspace need not be zero.
      : workspace_(std::vector<uint8_t>(ColumnWorkspaceBytes(rows, channels), 0xFF)),
        sums_(2 * channels) {
    for (int run = 0; run < 2; ++run) {
      EXPECT_EQ(
          ColumnMomentsOnDevice(nullptr, type, x, rows, channels, workspace_.data(), sums_.data()),
          0);
    }
  }
  DeviceArray<float>& sums() { return sums_; }

 private:
  DeviceArray<uint8_t> workspace_;
  DeviceArray<float> sums_;
};

// Sets where a norm's mean, scale, shift and inverse are: one after another in `statistics`.
void PlaceStatistics(float* statistics, uint32_t channels, DeviceNormState* state) {
  state->mean = statistics;
  state->scale = state->mean + channels;
  state->shift = state->scale + channels;
  state->inverse = state->shift + channels;
}

class DeviceLayers : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasDevice()) GTEST_SKIP() << "there is no GPU here";
    step_.emplace(std::vector<DeviceStep>(1));
  }
  std::optional<DeviceArray<DeviceStep>> step_;  // Made only if there is a GPU to hold it.
};

struct RowsCase {
  const char* name;
  DeviceType type;
  uint64_t rows;
  uint32_t channels;
};
void PrintTo(const RowsCase& test_case, std::ostream* out) { *out << test_case.name; }
std::string NameOfRowsCase(const testing::TestParamInfo<RowsCase>& test_case) {
  return test_case.param.name;
}

class DeviceRows : public DeviceLayers, public testing::WithParamInterface<RowsCase> {
 protected:
  size_t size() const { return rows_ * channels_; }

  // Compares the output y and the gradients of a batch norm with the equations. `has_relu`: a ReLU
  // follows. `has_addend`: another tensor is added before the ReLU. `is_given_sums`: the sums of x
  // and of its square were taken before.
  void ExpectNorm(bool has_relu, bool has_addend, bool is_given_sums = false);

  const DeviceType type_ = GetParam().type;
  const uint64_t rows_ = GetParam().rows;
  const uint32_t channels_ = GetParam().channels;
};

TEST_P(DeviceRows, SumsColumns) {
  const std::vector<float> x = SmallIntegers(size(), 1);
  TypedArray x_on_device(type_, x);
  SumsMemory memory(rows_, channels_);
  DeviceArray<float> sums(channels_);
  ASSERT_EQ(ColumnSumsOnDevice(nullptr, type_, x_on_device.data(), rows_, channels_, step_->data(),
                               memory.workspace(), sums.data()),
            0);
  std::vector<float> expected(channels_);
  for (size_t i = 0; i < size(); ++i) expected[i % channels_] += x[i];
  EXPECT_EQ(sums.Read(), expected);
}

TEST_P(DeviceRows, SumsColumnsAndTheirSquares) {
  const std::vector<float> x = SmallIntegers(size(), 1);
  TypedArray x_on_device(type_, x);
  std::vector<float> expected(2 * channels_);
  for (size_t i = 0; i < size(); ++i) {
    expected[i % channels_] += x[i];
    expected[channels_ + i % channels_] += x[i] * x[i];
  }
  EXPECT_EQ(ColumnMoments(type_, x_on_device.data(), rows_, channels_).sums().Read(), expected);
}

void DeviceRows::ExpectNorm(bool has_relu, bool has_addend, bool is_given_sums) {
  const DeviceNorm norm{rows_, channels_, 1e-5, 0.1, has_relu};
  const double tolerance = type_ != DeviceType::kFloat ? 0.01 : is_given_sums ? 5e-5 : 1e-5;
  // The mean of x is 8 and its deviation 1, so that the kernel loses digits if it computes the
  // variance carelessly.
  TypedArray x(type_, NormalsAround(size(), 8, 1)), addend(type_, NormalsAround(size(), 0, 2));
  TypedArray dy(type_, NormalsAround(size(), 0.5f, 3)), y(type_, size()), dx(type_, size());
  const std::vector<float> gammas(channels_, 1.25f), betas(channels_, 0.25f), zeros(channels_);
  DeviceArray<float> gamma(gammas), beta(betas), running_mean(zeros), running_variance(gammas);
  DeviceArray<float> statistics(4 * channels_), sums(2 * channels_), dgamma(channels_);
  DeviceArray<float> dbeta(channels_);
  SumsMemory memory(rows_, channels_);
  DeviceNormState state{gamma.data(), beta.data(), running_mean.data(), running_variance.data()};
  PlaceStatistics(statistics.data(), channels_, &state);
  state.workspace = memory.workspace();
  ColumnMoments moments(type_, x.data(), rows_, channels_);
  if (is_given_sums) state.sums = moments.sums().data();
  ASSERT_EQ(BatchNormForwardOnDevice(nullptr, type_, norm, state, /*is_training=*/true, x.data(),
                                     has_addend ? addend.data() : nullptr, y.data()),
            0);
  const std::vector<float> x_values = x.Read(), addend_values = addend.Read(), y_values = y.Read(),
                           dy_values = dy.Read();
  DeviceNormBackward backward{x.data(), dy.data()};
  if (has_addend) backward.y = y.data(), backward.g = dy.data();
  ASSERT_EQ(BatchNormBackwardOnDevice(nullptr, type_, norm, state, backward, step_->data(),
                                      sums.data(), dx.data(), dgamma.data(), dbeta.data()),
            0);
  const std::vector<float> g_on_device = dy.Read(), dx_on_device = dx.Read();
  const std::vector<float> dgamma_on_device = dgamma.Read(), dbeta_on_device = dbeta.Read();
  const auto n = static_cast<double>(rows_);
  for (uint32_t c = 0; c < channels_; ++c) {
    double mean = 0, variance = 0, sum = 0, sum_of_products = 0;
    for (size_t i = c; i < size(); i += channels_) mean += x_values[i] / n;
    for (size_t i = c; i < size(); i += channels_) variance += std::pow(x_values[i] - mean, 2) / n;
    const double inverse_deviation = 1 / std::sqrt(variance + norm.epsilon),
                 scale = 1.25 * inverse_deviation;
    // With a ReLU, the gradient must be zero where the output was not positive.
    const auto g = [&](size_t i) {
      return has_relu && y_values[i] <= 0 ? 0.0 : double{dy_values[i]};
    };
    for (size_t i = c; i < size(); i += channels_) {
      sum += g(i);
      sum_of_products += g(i) * (x_values[i] - mean) * inverse_deviation;
    }
    ASSERT_NEAR(dbeta_on_device[c], sum, 1e-6 * n);
    ASSERT_NEAR(dgamma_on_device[c], sum_of_products, 1e-5 * n);
    for (size_t i = c; i < size(); i += channels_) {
      const double normalized = (x_values[i] - mean) * inverse_deviation;
      const double linear = 1.25 * normalized + 0.25 + (has_addend ? addend_values[i] : 0);
      ASSERT_NEAR(y_values[i], has_relu ? std::max(0.0, linear) : linear,
                  tolerance * (1 + std::abs(linear)));
      if (has_addend) {
        ASSERT_EQ(g_on_device[i], g(i));
      }
      const double expected = scale * (g(i) - sum / n - normalized * sum_of_products / n);
      ASSERT_NEAR(dx_on_device[i], expected, tolerance * (1 + std::abs(expected))) << i;
    }
  }
}

TEST_P(DeviceRows, Norm) { ExpectNorm(false, false); }
TEST_P(DeviceRows, NormBeforeRelu) { ExpectNorm(true, false); }
TEST_P(DeviceRows, NormWithAdditionBeforeRelu) { ExpectNorm(true, true); }
TEST_P(DeviceRows, NormOfGivenSums) { ExpectNorm(true, true, true); }

// A norm with gamma `gamma` and beta 0.25 that leaves its output to its reader.
struct LeftNorm {
  LeftNorm(DeviceType type, const std::vector<float>& values, uint32_t channels, float gamma)
      : norm{values.size() / channels, channels, 1e-5, 0.1, /*has_relu=*/true},
        x(type, values),
        y(type, values.size()),
        rounded(type, 2 * channels),
        constants(std::vector<float>(channels, gamma)),
        betas(std::vector<float>(channels, 0.25f)),
        statistics(std::vector<float>(2 * channels)),
        state_arrays(NormArrays::kArrays * channels),
        arrays(NormArraysAt(state_arrays.data(), channels)),
        memory(norm.rows, channels) {
    state.gamma = constants.data();
    state.beta = betas.data();
    PlaceStatistics(state_arrays.data(), channels, &state);
    state.gain = arrays.gain;
    state.bias = arrays.bias;
    state.running_mean = statistics.data();
    state.running_variance = statistics.data() + channels;
    state.workspace = memory.workspace();
    state.rounded = rounded.data();
    EXPECT_EQ(BatchNormForwardOnDevice(nullptr, type, norm, state, /*is_training=*/true, x.data(),
                                       nullptr, /*y=*/nullptr),
              0);
    EXPECT_EQ(
        NormalizeOnDevice(nullptr, type, norm.rows, channels, x.data(), rounded.data(), y.data()),
        0);
  }

  const DeviceNorm norm;
  TypedArray x, y, rounded;
  DeviceArray<float> constants, betas, statistics, state_arrays;
  NormArrays arrays;
  SumsMemory memory;
  DeviceNormState state;
};

// Digits of a type, as the largest relative error of rounding to it.
double RoundingError(DeviceType type) {
  return type == DeviceType::kFloat ? 0x1p-24 : type == DeviceType::kBfloat ? 0x1p-9 : 0x1p-12;
}

TEST_P(DeviceRows, NormThatIsLeftToItsReaderIsNotFiniteIfGammaIsNot) {
  for (const float gamma : {NAN, INFINITY}) {
    LeftNorm left(type_, NormalsAround(size(), 8, 1), channels_, gamma);
    for (const float y : left.y.Read()) ASSERT_EQ(y, INFINITY);
  }
}

TEST_P(DeviceRows, NormThatIsLeftToItsReader) {
  LeftNorm left(type_, NormalsAround(size(), 8, 1), channels_, 1.25f);
  std::vector<float> state = left.state_arrays.Read(), running = left.statistics.Read();
  const std::vector<float> x = left.x.Read(), y = left.y.Read(), rounded = left.rounded.Read();
  const NormArrays arrays = NormArraysAt(state.data(), channels_);
  for (uint32_t c = 0; c < channels_; ++c) {
    const double error = 4 * RoundingError(type_), mean = arrays.mean[c];
    const float scale = arrays.scale[c], shift = arrays.shift[c], inverse = arrays.inverse[c];
    ASSERT_EQ(scale, rounded[c]);
    ASSERT_EQ(shift, rounded[channels_ + c]);
    ASSERT_NEAR(scale, 1.25 * inverse, error * 1.25);
    ASSERT_NEAR(shift, 0.25 - mean * scale, error * 10) << "it belongs to the rounded scale";
    ASSERT_NEAR(arrays.gain[c], scale / inverse, 1e-6);
    ASSERT_NEAR(arrays.bias[c], shift + mean * scale, 1e-5);
    ASSERT_NEAR(running[c], 0.1 * mean, 1e-5);
    for (size_t i = c; i < size(); i += channels_) {
      const double exact = std::max(0.0, double{scale} * x[i] + shift);
      ASSERT_NEAR(y[i], exact, error * (1 + exact)) << i;
    }
  }
}

// The gradients of a norm, if who computes the gradient of its output goes on to g and its sums,
// are those that the norm computes itself.
TEST_P(DeviceRows, NormWhoseGradientIsLeftToItsReader) {
  LeftNorm left(type_, NormalsAround(size(), 8, 1), channels_, 1.25f);
  const std::vector<float> dy = SmallIntegers(size(), 3), y = left.y.Read();
  struct Gradients {
    std::vector<float> x, gamma, beta;
  };
  const auto run_backward = [&](TypedArray* gradient, bool is_g) {
    TypedArray dx(type_, size());
    DeviceArray<float> gamma(channels_), beta(channels_);
    DeviceNormBackward backward{left.x.data(), gradient->data()};
    if (is_g) backward.products = left.arrays.products, backward.sums = left.arrays.sums;
    EXPECT_EQ(
        BatchNormBackwardOnDevice(nullptr, type_, left.norm, left.state, backward, step_->data(),
                                  left.arrays.slope, dx.data(), gamma.data(), beta.data()),
        0);
    return Gradients{dx.Read(), gamma.Read(), beta.Read()};
  };
  TypedArray gradient(type_, dy), g(type_, dy);
  const Gradients expected = run_backward(&gradient, false);
  DeviceArray<uint8_t> workspace(
      std::vector<uint8_t>(ColumnWorkspaceBytes(rows_, channels_), 0xFF));
  ASSERT_EQ(NormGradientOnDevice(nullptr, type_, rows_, channels_, left.x.data(), left.arrays,
                                 workspace.data(), g.data()),
            0);
  const std::vector<float> g_values = g.Read();
  std::vector<float> sums(channels_);
  for (size_t i = 0; i < size(); ++i) {
    ASSERT_EQ(g_values[i], y[i] > 0 ? dy[i] : 0) << "the signs are those of the output";
    sums[i % channels_] += g_values[i];
  }
  const Gradients given = run_backward(&g, true);
  EXPECT_EQ(given.beta, sums);
  EXPECT_EQ(given.beta, expected.beta);
  for (uint32_t c = 0; c < channels_; ++c)
    ASSERT_NEAR(given.gamma[c], expected.gamma[c], 1e-6 * (1 + std::abs(expected.gamma[c])));
  for (size_t i = 0; i < size(); ++i)
    ASSERT_NEAR(given.x[i], expected.x[i],
                2 * RoundingError(type_) * (4 + std::abs(expected.x[i])));
}

// A channel that does not vary has a scale of gamma / sqrt(epsilon). The mean times that is beyond
// fp16.
TEST_F(DeviceLayers, NormThatIsLeftToItsReaderStaysInTheRangeOfHalves) {
  for (const float value : {60000.0f, -60000.0f, 300.0f}) {
    LeftNorm left(DeviceType::kHalf, std::vector<float>(64, value), 8, value < 0 ? -2 : 2);
    for (const float number : left.rounded.Read()) EXPECT_LE(std::abs(number), 0x1p15f);
    for (const float y : left.y.Read()) EXPECT_LE(y, 32) << "2^-10 of 2^15";
  }
}

// The largest error of 1 / deviation of any channel, relative to it, if a norm of halves with the
// mean `mean` and the deviation 1 takes its moments from given sums.
double ErrorOfGivenSums(float mean) {
  constexpr uint64_t kRows = 4096;
  constexpr uint32_t kChannels = 64;
  TypedArray x(DeviceType::kHalf, NormalsAround(kRows * kChannels, mean, 1));
  TypedArray y(DeviceType::kHalf, kRows * kChannels);
  ColumnMoments given(DeviceType::kHalf, x.data(), kRows, kChannels);
  DeviceArray<float> statistics(4 * kChannels), constants(std::vector<float>(4 * kChannels, 1));
  DeviceNormState state{constants.data(), constants.data() + kChannels,
                        constants.data() + 2 * kChannels, constants.data() + 3 * kChannels};
  PlaceStatistics(statistics.data(), kChannels, &state);
  state.sums = given.sums().data();
  const DeviceNorm norm{kRows, kChannels, /*epsilon=*/0, /*momentum=*/0.1};
  EXPECT_EQ(BatchNormForwardOnDevice(nullptr, DeviceType::kHalf, norm, state, /*is_training=*/true,
                                     x.data(), nullptr, y.data()),
            0);
  const std::vector<float> values = x.Read(), moments = statistics.Read();
  double error = 0;
  for (uint32_t c = 0; c < kChannels; ++c) {
    double sum = 0, squares = 0;
    for (size_t i = c; i < values.size(); i += kChannels) sum += values[i];
    for (size_t i = c; i < values.size(); i += kChannels)
      squares += std::pow(values[i] - sum / kRows, 2);
    error = std::max(error, std::abs(moments[3 * kChannels + c] * std::sqrt(squares / kRows) - 1));
  }
  return error;
}

// Sums of x^2 that are rounded to floats lose what a large mean takes from the variance
// (batch_norm.h). That x itself is rounded to halves is not counted here. The errors were 7.1e-8,
// 1.4e-7, 2.0e-6 and 3.1e-4, of which up to 6e-8 is that the result is a float.
TEST_F(DeviceLayers, NormOfGivenSumsLosesDigitsToALargeMean) {
  for (const float mean : {0.0f, 1.0f, 10.0f, 100.0f}) {
    EXPECT_LT(ErrorOfGivenSums(mean), 0x1p-24 + (1 + mean * mean) * 0x1.8p-24) << mean;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DeviceRows,
    testing::Values(RowsCase{"Floats", DeviceType::kFloat, 1201, 8},
                    // A thread sums only a limited number of rows in float; here it has more.
                    RowsCase{"FloatsOfManyChannels", DeviceType::kFloat, 603, 136},
                    RowsCase{"FloatsOfManyRows", DeviceType::kFloat, 90000, 4},
                    // The channels are divided into large groups, the last of which is not full.
                    RowsCase{"BfloatsOfManyChannels", DeviceType::kBfloat, 300, 328},
                    RowsCase{"FloatsByThemselves", DeviceType::kFloat, 1201, 5},
                    RowsCase{"Bfloats", DeviceType::kBfloat, 4500, 8},
                    RowsCase{"BfloatsOfThreePacks", DeviceType::kBfloat, 700, 24},
                    RowsCase{"Halves", DeviceType::kHalf, 999, 16}),
    NameOfRowsCase);

struct WeightsCase {
  const char* name;
  DeviceSlide slide;
  uint32_t groups;
};
void PrintTo(const WeightsCase& test_case, std::ostream* out) { *out << test_case.name; }

class DeviceWeights : public DeviceLayers, public testing::WithParamInterface<WeightsCase> {};

TEST_P(DeviceWeights, GradientIsTheSumOfProducts) {
  const auto& [name, slide, groups] = GetParam();
  const auto& [in, out, window] = slide;
  const auto& [rows, columns] = window;
  const std::vector<float> x = SmallIntegers(in.size(), 1), dy = SmallIntegers(out.size(), 2);
  DeviceArray<float> x_on_device(x), dy_on_device(dy);
  const uint32_t inputs_of_group = in.c / groups, outputs_of_group = out.c / groups;
  std::vector<float> expected(size_t{out.c} * rows.kernel * columns.kernel * inputs_of_group);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto o = static_cast<uint32_t>(i % out.c);
    const size_t w = i / out.c % out.w, h = i / out.c / out.w % out.h,
                 n = i / out.c / out.w / out.h;
    for (uint32_t tap = 0; tap < rows.kernel * columns.kernel; ++tap) {
      const size_t kh = tap / columns.kernel, kw = tap % columns.kernel;
      // A negative position wraps to a huge number, which is outside the image.
      const size_t from_h = h * rows.stride + kh * rows.dilation - rows.pad;
      const size_t from_w = w * columns.stride + kw * columns.dilation - columns.pad;
      if (from_h >= in.h || from_w >= in.w) continue;
      const float* pixel = x.data() + ((n * in.h + from_h) * in.w + from_w) * in.c +
                           o / outputs_of_group * inputs_of_group;
      for (uint32_t k = 0; k < inputs_of_group; ++k)
        expected[(size_t{o} * rows.kernel * columns.kernel + tap) * inputs_of_group + k] +=
            pixel[k] * dy[i];
    }
  }
  DeviceArray<float> gradient(expected.size());
  ASSERT_EQ(ConvBackwardWeightsOnDevice(nullptr, DeviceType::kFloat, slide, groups,
                                        x_on_device.data(), dy_on_device.data(), gradient.data()),
            0);
  EXPECT_EQ(gradient.Read(), expected);
}

INSTANTIATE_TEST_SUITE_P(
    All, DeviceWeights,
    testing::Values(
        WeightsCase{"FewRows", {{2, 6, 9, 3}, {2, 6, 9, 4}, {{3, 1, 1, 1}, {3, 1, 1, 1}}}, 1},
        WeightsCase{"Depthwise", {{16, 6, 9, 8}, {16, 6, 9, 8}, {{3, 1, 1, 1}, {3, 1, 1, 1}}}, 8},
        WeightsCase{"Strides", {{20, 9, 8, 4}, {20, 4, 3, 6}, {{3, 2, 1, 0}, {3, 3, 1, 1}}}, 2},
        WeightsCase{"Dilated", {{20, 5, 4, 2}, {20, 5, 4, 3}, {{3, 1, 2, 2}, {3, 1, 3, 3}}}, 1},
        WeightsCase{"TwoABlock", {{24, 3, 3, 7}, {24, 3, 3, 11}, {{3, 1, 1, 1}, {3, 1, 1, 1}}}, 1}),
    [](const auto& test_case) { return test_case.param.name; });

}  // namespace
}  // namespace tern::kernels
