// Tests of the learning rate and the weight decay of each tensor (train.schedule.rules,
// train.weight_decay).
#include "setup/tensor_rates.h"

#include <gmock/gmock.h>

#include "common/base/text.h"
#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> AddedDecays(const UpdateRates& rates) {
  std::vector<float> decays;
  for (const kernels::TensorRates& of_tensor : rates.of_tensor) decays.push_back(of_tensor.decay);
  return decays;
}

// The tensors are weight and bias of conv1, conv2, fc3 and logits.
TEST(WeightDecay, HasTheRateOfTheFirstRuleThatMatches) {
  const auto job = SmallSetup(
      {"train.weight_decay.rate=0.5",
       "train.weight_decay.rules=[{tensors: fc3.*, rate: 2}, {tensors: '[fl]*.weight', rate: 3}, "
       "{tensors: conv1.weight, rate: 0}]"});
  EXPECT_THAT(DecaysOf(job->job, job->table, pb::WeightDecay::in_gradient),
              ElementsAre(0, 0, 0.5, 0, 2, 2, 3, 0));
  EXPECT_THAT(DecaysOf(job->job, job->table, pb::WeightDecay::local), Each(0));
}

TEST(WeightDecay, OfBiasesWithoutARuleIsAKey) {
  const auto job = SmallSetup({"train.weight_decay.rate=0.5", "train.weight_decay.biases=true",
                               "train.weight_decay.where=local",
                               "train.weight_decay.rules=[{tensors: conv*.bias, rate: 0}]"});
  EXPECT_THAT(DecaysOf(job->job, job->table, pb::WeightDecay::local),
              ElementsAre(0.5, 0, 0.5, 0, 0.5, 0.5, 0.5, 0.5));
  EXPECT_THAT(DecaysOf(job->job, job->table, pb::WeightDecay::in_gradient), Each(0));
}

TEST(WeightDecay, IsNotInTheGradientsOfAJobThatWaits) {
  const auto job = SmallSetup({"train.weight_decay.rate=0.5", "train.compute=wait"});
  EXPECT_THAT(DecaysOf(job->job, job->table, pb::WeightDecay::in_gradient), Each(0));
}

TEST(WeightDecay, IsTakenOutOfTheGradientIfTheOptimizerNeedsThatOfTheLoss) {
  const auto in_gradient = SmallSetup({"train.weight_decay.rate=0.5"});
  const UpdateRates kept = UpdateRatesOf(in_gradient->job, in_gradient->table, false);
  EXPECT_THAT(AddedDecays(kept), Each(0));
  EXPECT_THAT(kept.removed_decay, Each(0));
  const UpdateRates rates = UpdateRatesOf(in_gradient->job, in_gradient->table, true);
  EXPECT_THAT(AddedDecays(rates), ElementsAre(0.5, 0, 0.5, 0, 0.5, 0, 0.5, 0));
  EXPECT_EQ(rates.removed_decay, AddedDecays(rates));
  const auto local = SmallSetup({"train.weight_decay.rate=0.5", "train.weight_decay.where=local"});
  const UpdateRates local_rates = UpdateRatesOf(local->job, local->table, true);
  EXPECT_EQ(AddedDecays(local_rates), AddedDecays(rates));
  EXPECT_THAT(local_rates.removed_decay, Each(0));
}

TEST(LearningRate, IsMultipliedByTheFirstRuleThatMatches) {
  const auto job =
      SmallSetup({"train.schedule.rules=[{tensors: conv1.*, times: 0}, {tensors: "
                  "'*.bias', times: 64}, {tensors: logits.*, times: 0.5}]"});
  std::vector<float> times;
  for (const kernels::TensorRates& rates : UpdateRatesOf(job->job, job->table, false).of_tensor)
    times.push_back(rates.rate_times);
  EXPECT_THAT(times, ElementsAre(0, 0, 1, 64, 1, 64, 0.5, 64));
}

TEST(LearningRate, IsZeroAfterTheLastStepOfTheRule) {
  const auto job =
      SmallSetup({"train.schedule.rules=[{tensors: conv1.*, times: 3, until_step: 10}]"});
  const UpdateRates rates = UpdateRatesOf(job->job, job->table, false);
  EXPECT_EQ(rates.InStep(1, 0).rate_times, 3);
  EXPECT_EQ(rates.InStep(10, 0).rate_times, 3);
  EXPECT_EQ(rates.InStep(11, 0).rate_times, 0);
  EXPECT_EQ(rates.InStep(1'000'000, 2).rate_times, 1);
}

TEST(TensorRules, MatchNotOnlyStatistics) {
  const SmallJobFile file;
  const std::string net =
      "model={net: {layers: [{name: conv, conv: {outputs: 4, kernel: 5}}, "
      "{name: norm, batch_norm: {}}, {name: scores, dense: {outputs: 10}}, "
      "{name: loss, softmax_loss: {}}]}}";
  for (const std::string tensors : {"norm.running_mean", "'*.running_var'"}) {
    const auto job = MakeSetup(
        file.path(), {net, Cat("train.weight_decay.rules=[{tensors: ", tensors, ", rate: 3}]")});
    ASSERT_EQ(job.status().code(), Code::kBadJob) << tensors;
    EXPECT_THAT(job.status().message(),
                HasSubstr("is the name of statistics, and of no tensor of the model; its tensors "
                          "are conv.weight, "));
  }
}

TEST(TensorRules, MatchATensor) {
  const SmallJobFile file;
  for (const auto& [rules, value] : {std::pair{"exchange.rules", "codec: fp32"},
                                     std::pair{"train.weight_decay.rules", "rate: 1"},
                                     std::pair{"train.schedule.rules", "times: 1"}}) {
    const auto job =
        MakeSetup(file.path(),
                  {Cat(rules, "=[{tensors: fc3.*, ", value, "}, {tensors: local3, ", value, "}]")});
    ASSERT_EQ(job.status().code(), Code::kBadJob);
    EXPECT_THAT(job.status().message(),
                HasSubstr(Cat(rules,
                              "[1].tensors: \"local3\" is the name of no tensor of the "
                              "model; its tensors are conv1.weight, conv1.bias, ")));
  }
}

}  // namespace
}  // namespace tern::setup
