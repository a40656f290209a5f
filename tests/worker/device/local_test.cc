// A model on a GPU that is trained at local weights w' (OD-SGD) instead of the global weights W,
// and that keeps the gradients of two rounds.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "common/update/local_updater.h"
#include "kernels/codes/stats.h"
#include "kernels/device/tiling.h"
#include "tests/worker/engine/problem.h"
#include "worker/device/cuda_model.h"

namespace tern::engine {
namespace {

using LocalArray = device::DeviceModel::LocalArray;

class LocalModelTest : public testing::Test {
 protected:
  // Makes the model. All its tensors are prepared together (one bucket) and encoded together (one
  // chunk).
  void MakeModel(const std::vector<LocalArray>& local_arrays) {
    device::DeviceModel::Layout layout;
    layout.elements = problem_.table.total;
    for (uint32_t t = 0; t < problem_.table.parameters.size(); ++t) {
      const models::Parameter& parameter = problem_.table.parameters[t];
      parts_.push_back(
          {.begin = parameter.offset, .count = parameter.count, .first = 0, .tensor = t});
    }
    layout.buckets = layout.chunks = {parts_};
    layout.columns.resize(parts_.size(), 1);
    layout.codec = codec_.get();
    layout.local_arrays = local_arrays;
    layout.rounds = 2;
    auto model = device::DeviceModel::Make(layout);
    ASSERT_TRUE(model.ok()) << model.status().message();
    model_ = std::move(*model);
    ASSERT_TRUE(model_->CopyToDevice({problem_.parameters.data(), {}, nullptr}).ok());
  }
  std::vector<float> RandomValues(uint32_t set_number) const {
    std::vector<float> numbers(problem_.table.total);
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = 0.1f * Problem::DrawUniform(7, set_number, i);
    return numbers;
  }
  void PutGradients(const std::vector<float>& gradients) {
    const auto& cuda_model = static_cast<const device::CudaModel&>(*model_);
    const size_t bytes = gradients.size() * sizeof(float);
    ASSERT_TRUE(cuda_model.stream()->CopyIn(cuda_model.gradients(), gradients.data(), bytes).ok());
    ASSERT_TRUE(cuda_model.stream()->Wait().ok());
  }
  std::vector<float> CopyFromDevice(LocalArray local) {
    std::vector<float> values(problem_.table.total);
    EXPECT_TRUE(model_->CopyLocalToHost(local, values.data()).ok());
    return values;
  }
  double LossOf(bool training) {
    auto net =
        Net::Make(problem_.net,
                  {.device = DeviceUnderTest(), .batch = problem_.batch, .is_training = training},
                  {.statistics = problem_.statistics.data(), .model = model_.get()});
    EXPECT_TRUE(net.ok()) << net.status().message();
    return (*net)->Forward({problem_.images, problem_.labels, problem_.batch}, nullptr);
  }

  Problem problem_{MakeLeNet(pb::Model::valid), 2};
  const std::unique_ptr<codec::Codec> codec_ = std::move(*codec::MakeCodec("fp32", {}));
  std::vector<kernels::Part> parts_;
  std::unique_ptr<device::DeviceModel> model_;
};

TEST_F(LocalModelTest, TrainsAtLocalWeightsAndEvaluatesAtW) {
  MakeModel({LocalArray::kPoint});
  ASSERT_TRUE(model_->CopyWeights(LocalArray::kPoint).ok());
  EXPECT_EQ(CopyFromDevice(LocalArray::kPoint), problem_.parameters);
  const double loss_at_w = LossOf(false);
  EXPECT_EQ(LossOf(true), loss_at_w);
  std::vector<float> local_weights = problem_.parameters;
  for (float& w : local_weights) w *= 1.5f;
  ASSERT_TRUE(model_->CopyLocalToDevice(LocalArray::kPoint, local_weights.data()).ok());
  EXPECT_EQ(LossOf(false), loss_at_w);
  const double loss_at_local_weights = LossOf(true);
  EXPECT_NE(loss_at_local_weights, loss_at_w);
  ASSERT_TRUE(model_->CopyToDevice({local_weights.data(), {}, nullptr}).ok());
  EXPECT_EQ(LossOf(false), loss_at_local_weights);
}

// The codes of a round are made from that round's gradients, even if the gradients of a later round
// have been computed meanwhile.
TEST_F(LocalModelTest, RetainsGradientsOfOpenRounds) {
  MakeModel({LocalArray::kPoint});
  for (uint32_t round = 1; round <= 2; ++round) {
    PutGradients(RandomValues(round));
    ASSERT_TRUE(model_->RetainGradients(round, 0).ok());
  }
  PutGradients(RandomValues(3));
  for (uint32_t round = 1; round <= 2; ++round) {
    const std::vector<float> expected = RandomValues(round);
    const auto code = model_->codes().Encode(0, {}, {.round = round});
    ASSERT_TRUE(code.ok());
    EXPECT_EQ(code->view(), std::string(reinterpret_cast<const char*>(expected.data()),
                                        expected.size() * sizeof(float)));
    const auto stats = model_->codes().StatsOfCodedValues(round, 0);
    ASSERT_TRUE(stats.ok());
    EXPECT_EQ(stats->front().sum, kernels::ComputeStats(expected.data(), parts_[0].count).sum);
    std::vector<float> copied_gradients(100);
    ASSERT_TRUE(model_->codes().CopyGradientsToHost(round, 50, copied_gradients).ok());
    EXPECT_TRUE(
        std::equal(copied_gradients.begin(), copied_gradients.end(), expected.begin() + 50));
  }
}

// Local updates with delay compensation. If the test's parameter is true, the compensation is
// relative to an earlier W (kBefore), otherwise to w' (kPoint).
class LocalMove : public LocalModelTest, public testing::WithParamInterface<bool> {};

TEST_P(LocalMove, MatchesCpu) {
  const bool is_relative_to_previous_w = GetParam();
  pb::LocalUpdater updater_def;
  updater_def.set_name("dcasgd_a");
  updater_def.set_lambda(2);
  updater_def.set_momentum(0.9);
  const size_t elements = problem_.table.total;
  const auto updater = std::move(*update::MakeLocalUpdater(updater_def, elements, 2));
  std::vector<LocalArray> local_arrays = {LocalArray::kPoint, LocalArray::kVelocity,
                                          LocalArray::kMeanSquare};
  if (is_relative_to_previous_w) local_arrays.push_back(LocalArray::kBefore);
  MakeModel(local_arrays);
  std::vector<float> local_weights = RandomValues(1);
  std::vector<kernels::TensorRates> rates_of_tensor;
  const std::vector<float> weights_before =
                               is_relative_to_previous_w ? RandomValues(2) : local_weights,
                           gradients = RandomValues(3);
  PutGradients(gradients);
  ASSERT_TRUE(model_->CopyLocalToDevice(LocalArray::kPoint, local_weights.data()).ok());
  if (is_relative_to_previous_w) {
    ASSERT_TRUE(model_->CopyLocalToDevice(LocalArray::kBefore, weights_before.data()).ok());
  }
  for (size_t t = 0; t < parts_.size(); ++t) {
    rates_of_tensor.push_back(
        {.decay = t % 2 == 0 ? 0.01f : 0, .rate_times = 1 + 0.3f * static_cast<float>(t)});
  }
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(model_->UpdateLocalWeights(updater->CoefficientsOf(0.1f), rates_of_tensor).ok());
    const std::vector<float> reference = is_relative_to_previous_w ? weights_before : local_weights;
    for (const kernels::Part& part : parts_) {
      updater->ComputeLocalWeights(&problem_.parameters[part.begin], &gradients[part.begin],
                                   &reference[part.begin], 0.1f, &local_weights[part.begin],
                                   part.count, part.begin, rates_of_tensor[part.tensor]);
    }
    EXPECT_EQ(CopyFromDevice(LocalArray::kPoint), local_weights);
  }
  const auto state_arrays = updater->StateArrays();
  EXPECT_TRUE(std::equal(state_arrays[0].values.begin(), state_arrays[0].values.end(),
                         CopyFromDevice(LocalArray::kVelocity).begin()));
  EXPECT_TRUE(std::equal(state_arrays[1].values.begin(), state_arrays[1].values.end(),
                         CopyFromDevice(LocalArray::kMeanSquare).begin()));
}

INSTANTIATE_TEST_SUITE_P(Against, LocalMove, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("WOfBefore") : std::string("Point");
});

}  // namespace
}  // namespace tern::engine
