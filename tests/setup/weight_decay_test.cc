// Tests of the weight decay of each tensor (train.weight_decay).
#include "setup/weight_decay.h"

#include <gmock/gmock.h>

#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  EXPECT_THAT(UpdateDecaysOf(in_gradient->job, in_gradient->table, false).added, Each(0));
  EXPECT_THAT(UpdateDecaysOf(in_gradient->job, in_gradient->table, false).removed, Each(0));
  const UpdateDecays decays = UpdateDecaysOf(in_gradient->job, in_gradient->table, true);
  EXPECT_THAT(decays.added, ElementsAre(0.5, 0, 0.5, 0, 0.5, 0, 0.5, 0));
  EXPECT_EQ(decays.removed, decays.added);
  const auto local = SmallSetup({"train.weight_decay.rate=0.5", "train.weight_decay.where=local"});
  EXPECT_EQ(UpdateDecaysOf(local->job, local->table, true).added, decays.added);
  EXPECT_THAT(UpdateDecaysOf(local->job, local->table, true).removed, Each(0));
}

TEST(WeightDecay, RefusesARuleThatMatchesNoTensor) {
  const SmallJobFile file;
  const auto job = MakeSetup(
      file.path(),
      {"train.weight_decay.rules=[{tensors: fc3.*, rate: 1}, {tensors: local3, rate: 1}]"});
  ASSERT_EQ(job.status().code(), Code::kBadJob);
  EXPECT_THAT(job.status().message(),
              HasSubstr("train.weight_decay.rules[1].tensors: \"local3\" is the name of no tensor "
                        "of the model; its tensors are conv1.weight, conv1.bias, "));
}

}  // namespace
}  // namespace tern::setup
