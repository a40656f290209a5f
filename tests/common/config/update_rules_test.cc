// Tests of the rules about keys of an update of the weights: Lookahead, rates of tensors, EASGD.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The faults of SmallJob with fp32 and these settings.
std::vector<std::string> FaultsOfUpdate(std::vector<std::string> settings) {
  settings.push_back("exchange.codec=fp32");
  return FaultsOf(SmallJob(), settings);
}

TEST(Lookahead, HasThePapersNumbersAndIsNoneWithoutItsSection) {
  const auto job = Parse(SmallJob() + "  ssgd: {lookahead: {}}\n");
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(job->train().ssgd().lookahead().every_steps(), 5u);
  EXPECT_EQ(job->train().ssgd().lookahead().decay(), 0.5);
  const auto job_without = Parse(SmallJob());
  ASSERT_TRUE(job_without.ok()) << job_without.status().message();
  EXPECT_FALSE(job_without->train().ssgd().has_lookahead());
}

TEST(Lookahead, HasNumbersInRange) {
  EXPECT_THAT(FaultsOfUpdate({"train.ssgd.lookahead={every_steps: 1, decay: 1, decay_power: 2}"}),
              IsEmpty());
  EXPECT_THAT(FaultsOfUpdate({"train.ssgd.lookahead.every_steps=0"}),
              ElementsAre(HasSubstr(
                  "train.ssgd.lookahead.every_steps: saw 0; allowed: a whole number, at least 1")));
  EXPECT_THAT(
      FaultsOfUpdate({"train.ssgd.lookahead.decay=1.5"}),
      ElementsAre(HasSubstr("train.ssgd.lookahead.decay: saw 1.5; allowed: a number, 0 to 1")));
}

TEST(Lookahead, IsForSsgdOfWorkersThatHoldTheWeights) {
  EXPECT_THAT(FaultsOfUpdate({"train.parameters=central", "train.ssgd.lookahead={}"}),
              ElementsAre(HasSubstr("train.ssgd.lookahead: saw a section with parameters: central; "
                                    "allowed: train.parameters: localized")));
  EXPECT_THAT(FaultsOfUpdate({"train.algorithm=odsgd", "train.odsgd.lookahead={}"}),
              ElementsAre(HasSubstr("train.odsgd.lookahead: saw an unknown key")));
}

TEST(Lookahead, HasTheOnlyAverage) {
  EXPECT_THAT(FaultsOfUpdate({"train.ssgd.lookahead={}", "evaluation.ema_decay=0.9"}),
              ElementsAre(HasSubstr(
                  "evaluation.ema_decay: saw 0.9 with train.ssgd.lookahead; allowed: 0")));
}

TEST(Lookahead, IsDueWithinTheJob) {
  EXPECT_THAT(FaultsOfUpdate({"train.steps=9", "train.ssgd.lookahead.every_steps=9"}), IsEmpty());
  EXPECT_THAT(FaultsOfUpdate({"train.steps=9", "train.ssgd.lookahead.every_steps=10"}),
              ElementsAre(HasSubstr(
                  "train.ssgd.lookahead.every_steps: saw 10; allowed: at most train.steps (9)")));
}

TEST(RateRules, MayEndWhereWorkersHoldTheWeights) {
  const std::string rules = "train.schedule.rules=[{times: 2}, {times: 1, until_step: 5}]";
  for (const std::string algorithm : {"ssgd", "psgd", "rsgd", "pqasgd"})
    EXPECT_THAT(FaultsOfUpdate({"train.algorithm=" + algorithm, rules}), IsEmpty()) << algorithm;
  EXPECT_THAT(FaultsOfUpdate({"train.parameters=central", rules}),
              ElementsAre(HasSubstr("train.schedule.rules[1].until_step: saw 5 with algorithm: "
                                    "ssgd and parameters: central; allowed: nothing")));
  EXPECT_THAT(FaultsOfUpdate({"train.algorithm=odsgd", rules}),
              ElementsAre(HasSubstr("train.schedule.rules[1].until_step: saw 5 with algorithm: "
                                    "odsgd; allowed: nothing")));
}

// With workers.max, EASGD may have more workers than workers.count.
TEST(UpdateRules, LimitEasgdAlphaByTheMostWorkers) {
  EXPECT_THAT(FaultsOf(SmallJobWith("  count: 2\n", "  count: 2\n  max: 8\n",
                                    "  algorithm: easgd\n  easgd: {alpha: 0.2}\n"
                                    "exchange: {codec: fp32}\nfaults: {on_worker_loss: shrink}\n")),
              ElementsAre(HasSubstr("train.easgd.alpha: saw 0.2; allowed: less than 1 / "
                                    "workers.max (8)")));
}

}  // namespace
}  // namespace tern::config
