// A model on a GPU that is trained at weights other than W: OD-SGD's w', and gradients of two
// rounds.
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

using Local = device::DeviceModel::Local;

class LocalModel : public testing::Test {
 protected:
  // One bucket and one chunk of all tensors.
  void Make(const std::vector<Local>& local) {
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
    layout.local = local;
    layout.rounds = 2;
    auto made = device::DeviceModel::Make(layout);
    ASSERT_TRUE(made.ok()) << made.status().message();
    model_ = std::move(*made);
    ASSERT_TRUE(model_->CopyToDevice({problem_.parameters.data(), {}, nullptr}).ok());
  }
  std::vector<float> Numbers(uint32_t of) const {
    std::vector<float> numbers(problem_.table.total);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.1f * Problem::Uniform(7, of, i);
    return numbers;
  }
  void PutGradients(const std::vector<float>& gradients) {
    const auto& there = static_cast<const device::CudaModel&>(*model_);
    const size_t bytes = gradients.size() * sizeof(float);
    ASSERT_TRUE(there.stream()->CopyIn(there.gradients(), gradients.data(), bytes).ok());
    ASSERT_TRUE(there.stream()->Wait().ok());
  }
  std::vector<float> CopyFromDevice(Local local) {
    std::vector<float> values(problem_.table.total);
    EXPECT_TRUE(model_->CopyLocalToHost(local, values.data()).ok());
    return values;
  }
  double LossOf(bool training) {
    auto net = Net::Make(
        problem_.net, {.device = DeviceUnderTest(), .batch = problem_.batch, .training = training},
        {.statistics = problem_.statistics.data(), .model = model_.get()});
    EXPECT_TRUE(net.ok()) << net.status().message();
    return (*net)->Forward({problem_.images, problem_.labels, problem_.batch}, nullptr);
  }

  Problem problem_{LeNet(pb::Model::valid), 2};
  const std::unique_ptr<codec::Codec> codec_ = std::move(*codec::MakeCodec("fp32", {}));
  std::vector<kernels::Part> parts_;
  std::unique_ptr<device::DeviceModel> model_;
};

TEST_F(LocalModel, TrainsAtLocalWeightsAndEvaluatesAtW) {
  Make({Local::kPoint});
  ASSERT_TRUE(model_->CopyWeights(Local::kPoint).ok());
  EXPECT_EQ(CopyFromDevice(Local::kPoint), problem_.parameters);
  const double at_w = LossOf(false);
  EXPECT_EQ(LossOf(true), at_w);
  std::vector<float> point = problem_.parameters;
  for (float& w : point) w *= 1.5f;
  ASSERT_TRUE(model_->CopyLocalToDevice(Local::kPoint, point.data()).ok());
  EXPECT_EQ(LossOf(false), at_w);
  const double at_point = LossOf(true);
  EXPECT_NE(at_point, at_w);
  ASSERT_TRUE(model_->CopyToDevice({point.data(), {}, nullptr}).ok());
  EXPECT_EQ(LossOf(false), at_point);
}

// Each round's own gradients are encoded, even if those of the next round were computed before.
TEST_F(LocalModel, RetainsGradientsOfOpenRounds) {
  Make({Local::kPoint});
  for (uint32_t round = 1; round <= 2; ++round) {
    PutGradients(Numbers(round));
    ASSERT_TRUE(model_->RetainGradients(round, 0).ok());
  }
  PutGradients(Numbers(3));
  for (uint32_t round = 1; round <= 2; ++round) {
    const std::vector<float> expected = Numbers(round);
    const auto code = model_->codes().Encode(0, {}, {.round = round});
    ASSERT_TRUE(code.ok());
    EXPECT_EQ(code->view(), std::string(reinterpret_cast<const char*>(expected.data()),
                                        expected.size() * sizeof(float)));
    const auto stats = model_->codes().StatsOf(round, 0);
    ASSERT_TRUE(stats.ok());
    EXPECT_EQ(stats->front().sum, kernels::ComputeStats(expected.data(), parts_[0].count).sum);
    std::vector<float> some(100);
    ASSERT_TRUE(model_->codes().CopyGradientsToHost(round, 50, some).ok());
    EXPECT_TRUE(std::equal(some.begin(), some.end(), expected.begin() + 50));
  }
}

// Local updates with delay compensation, relative to the previous W (parameter true) or to w'
// (false).
class LocalMove : public LocalModel, public testing::WithParamInterface<bool> {};

TEST_P(LocalMove, MatchesCpu) {
  const bool looks_back = GetParam();
  pb::LocalUpdater def;
  def.set_name("dcasgd_a");
  def.set_momentum(0.9);
  const size_t n = problem_.table.total;
  const auto updater = std::move(*update::MakeLocalUpdater(def, n, 2));
  std::vector<Local> local = {Local::kPoint, Local::kVelocity, Local::kMeanSquare};
  if (looks_back) local.push_back(Local::kBefore);
  Make(local);
  std::vector<float> point = Numbers(1), decay;
  const std::vector<float> before = looks_back ? Numbers(2) : point, gradients = Numbers(3);
  PutGradients(gradients);
  ASSERT_TRUE(model_->CopyLocalToDevice(Local::kPoint, point.data()).ok());
  if (looks_back) {
    ASSERT_TRUE(model_->CopyLocalToDevice(Local::kBefore, before.data()).ok());
  }
  for (size_t t = 0; t < parts_.size(); ++t) decay.push_back(t % 2 == 0 ? 0.01f : 0);
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(model_->MoveLocally(updater->CoefficientsOf(0.1f), decay).ok());
    const std::vector<float> reference = looks_back ? before : point;
    for (const kernels::Part& part : parts_) {
      updater->Next(&problem_.parameters[part.begin], &gradients[part.begin],
                    &reference[part.begin], 0.1f, &point[part.begin], part.count, part.begin,
                    decay[part.tensor]);
    }
    EXPECT_EQ(CopyFromDevice(Local::kPoint), point);
  }
  const auto slots = updater->StateArrays();
  EXPECT_TRUE(std::equal(slots[0].values.begin(), slots[0].values.end(),
                         CopyFromDevice(Local::kVelocity).begin()));
  EXPECT_TRUE(std::equal(slots[1].values.begin(), slots[1].values.end(),
                         CopyFromDevice(Local::kMeanSquare).begin()));
}

INSTANTIATE_TEST_SUITE_P(Against, LocalMove, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("WOfBefore") : std::string("Point");
});

}  // namespace
}  // namespace tern::engine
