// Tests of the GPU kernels of depthwise convolutions: on small integers, whose sums are exact, they
// give what the plain loops of conv.h give.
#include <string>
#include <tuple>

#include "kernels/nn/conv.h"
#include "kernels/nn/depthwise.h"
#include "tests/kernels/nn/typed_array.h"

namespace tern::kernels {
namespace {

struct DepthwiseCase {
  const char* name;
  DeviceSlide slide;
};
void PrintTo(const DepthwiseCase& test_case, std::ostream* out) { *out << test_case.name; }

class Depthwise : public testing::TestWithParam<std::tuple<DepthwiseCase, DeviceType>> {
 protected:
  void SetUp() override {
    if (!HasDevice()) GTEST_SKIP() << "there is no GPU here";
  }
  TypedArray Values(size_t n, uint64_t seed) { return {type_, SmallIntegers(n, seed)}; }

  const DeviceSlide slide_ = std::get<0>(GetParam()).slide;
  const DeviceType type_ = std::get<1>(GetParam());
  const uint32_t channels_ = slide_.in.c;
};

TEST_P(Depthwise, ForwardIsThatOfTheLoops) {
  ASSERT_TRUE(IsDepthwise(slide_, channels_));
  TypedArray x = Values(slide_.in.size(), 1), weight = Values(9 * channels_, 2),
             bias = Values(channels_, 3);
  for (void* const bias_data : {static_cast<void*>(nullptr), bias.data()}) {
    TypedArray y(type_, slide_.out.size()), expected(type_, slide_.out.size());
    ASSERT_EQ(DepthwiseForwardOnDevice(nullptr, type_, slide_, x.data(), weight.data(), bias_data,
                                       y.data()),
              0);
    ASSERT_EQ(ConvForwardOnDevice(nullptr, type_, slide_, channels_, x.data(), weight.data(),
                                  bias_data, expected.data()),
              0);
    EXPECT_EQ(y.Read(), expected.Read());
  }
}

TEST_P(Depthwise, GradientOfTheInputIsThatOfTheLoops) {
  TypedArray dy = Values(slide_.out.size(), 1), weight = Values(9 * channels_, 2);
  TypedArray dx(type_, slide_.in.size()), expected(type_, slide_.in.size());
  ASSERT_EQ(
      DepthwiseBackwardDataOnDevice(nullptr, type_, slide_, dy.data(), weight.data(), dx.data()),
      0);
  ASSERT_EQ(ConvBackwardDataOnDevice(nullptr, type_, slide_, channels_, dy.data(), weight.data(),
                                     expected.data()),
            0);
  EXPECT_EQ(dx.Read(), expected.Read());
}

TEST_P(Depthwise, GradientOfTheWeightsIsThatOfTheLoops) {
  TypedArray x = Values(slide_.in.size(), 1), dy = Values(slide_.out.size(), 2);
  TypedArray gradient(type_, 9 * channels_), expected(type_, 9 * channels_);
  DeviceArray<uint8_t> workspace(DepthwiseWorkspaceBytes(type_, slide_));
  ASSERT_EQ(DepthwiseBackwardWeightsOnDevice(nullptr, type_, slide_, x.data(), dy.data(),
                                             workspace.data(), gradient.data()),
            0);
  ASSERT_EQ(ConvBackwardWeightsOnDevice(nullptr, type_, slide_, channels_, x.data(), dy.data(),
                                        expected.data()),
            0);
  EXPECT_EQ(gradient.Read(), expected.Read());
}

std::string NameOfDepthwiseCase(const testing::TestParamInfo<Depthwise::ParamType>& info) {
  const auto& [test_case, type] = info.param;
  const std::string name = test_case.name;
  if (type == DeviceType::kFloat) return name + "Floats";
  return name + (type == DeviceType::kHalf ? "Halves" : "Bfloats");
}

constexpr DeviceWindow kSame{{3, 1, 1, 1}, {3, 1, 1, 1}};
INSTANTIATE_TEST_SUITE_P(
    All, Depthwise,
    testing::Combine(
        testing::Values(
            DepthwiseCase{"Same", {{3, 6, 9, 8}, {3, 6, 9, 8}, kSame}},
            DepthwiseCase{"OddChannels", {{2, 5, 7, 7}, {2, 5, 7, 7}, kSame}},
            DepthwiseCase{"OneChannel", {{2, 4, 4, 1}, {2, 4, 4, 1}, kSame}},
            DepthwiseCase{"ManyChannels", {{2, 3, 3, 136}, {2, 3, 3, 136}, kSame}},
            DepthwiseCase{"Valid", {{2, 6, 9, 8}, {2, 4, 7, 8}, {{3, 1, 1, 0}, {3, 1, 1, 0}}}},
            DepthwiseCase{"Full", {{2, 3, 2, 8}, {2, 5, 4, 8}, {{3, 1, 1, 2}, {3, 1, 1, 2}}}},
            DepthwiseCase{"Stride", {{2, 8, 9, 16}, {2, 4, 5, 16}, {{3, 2, 1, 1}, {3, 2, 1, 1}}}},
            DepthwiseCase{"StrideValid",
                          {{2, 8, 11, 8}, {2, 3, 5, 8}, {{3, 2, 1, 0}, {3, 2, 1, 0}}}},
            DepthwiseCase{"StrideUnevenPadding",
                          {{2, 8, 8, 24}, {2, 4, 4, 24}, {{3, 2, 1, 0}, {3, 2, 1, 0}}}},
            // So many rows that several blocks share the sums, and a thread has several rows.
            DepthwiseCase{"ManyRows", {{200, 12, 3, 8}, {200, 12, 3, 8}, kSame}}),
        testing::Values(DeviceType::kFloat, DeviceType::kBfloat, DeviceType::kHalf)),
    NameOfDepthwiseCase);

TEST(DepthwiseShapes, OthersAreRefused) {
  const DeviceSlide slide{{2, 6, 9, 8}, {2, 6, 9, 8}, kSame};
  EXPECT_TRUE(IsDepthwise(slide, 8));
  EXPECT_FALSE(IsDepthwise(slide, 4));
  DeviceSlide other = slide;
  other.window.rows.dilation = 2;
  EXPECT_FALSE(IsDepthwise(other, 8));
  other = slide;
  other.window.rows.stride = 2;
  EXPECT_FALSE(IsDepthwise(other, 8)) << "strides differ";
  other = slide;
  other.window.columns = {5, 1, 1, 2};
  EXPECT_FALSE(IsDepthwise(other, 8));
  other = slide;
  other.out.c = 16;
  EXPECT_FALSE(IsDepthwise(other, 8)) << "two outputs a channel";
}

}  // namespace
}  // namespace tern::kernels
