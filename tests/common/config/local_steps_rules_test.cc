// Tests of the rules about keys of algorithms with local steps: outer optimizers, codecs with
// feedback, fragments, and the order of parts.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "common/config/canonical.h"
#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The faults of SmallJob with fp32, this algorithm and these settings.
std::vector<std::string> FaultsWith(const std::string& algorithm,
                                    std::vector<std::string> settings) {
  settings.insert(settings.begin(), {"train.algorithm=" + algorithm, "exchange.codec=fp32"});
  return FaultsOf(SmallJob(), settings);
}

TEST(OuterOptimizer, HasDiLoCosNumbersByDefault) {
  for (const std::string section : {"{}", "{name: nesterov}", "{learning_rate: 0.7}"}) {
    const auto job =
        Parse(SmallJob() + "  algorithm: pqasgd\n  pqasgd: {outer: " + section + "}\n");
    ASSERT_TRUE(job.ok()) << job.status().message();
    const pb::OuterOptimizer& outer = job->train().pqasgd().outer();
    EXPECT_EQ(outer.name(), "nesterov");
    EXPECT_EQ(outer.learning_rate(), 0.7);
    EXPECT_EQ(outer.momentum(), 0.9);
  }
  const auto job = Parse(SmallJob() + "  algorithm: pqasgd\n  pqasgd: {outer: {name: sgd}}\n");
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_FALSE(job->train().pqasgd().outer().has_momentum());
}

// Jobs without the new keys have the digests that they had before there were such keys.
TEST(OuterOptimizer, IsNoneWithoutItsSection) {
  for (const std::string algorithm : {"psgd", "rsgd", "pqasgd"}) {
    const auto job = Parse(SmallJob(), {"train.algorithm=" + algorithm, "exchange.codec=fp32"});
    ASSERT_TRUE(job.ok()) << job.status().message();
    const pb::Train train = WithoutLocalKeys(*job).train();
    EXPECT_FALSE(train.psgd().has_outer());
    EXPECT_FALSE(train.pqasgd().has_outer());
    EXPECT_FALSE(train.pqasgd().has_feedback());
    EXPECT_FALSE(train.pqasgd().has_fragments());
    EXPECT_FALSE(train.pqasgd().has_overlap());
    EXPECT_FALSE(train.pqasgd().has_mixing());
    EXPECT_FALSE(train.rsgd().has_order());
  }
}

TEST(OuterOptimizer, IsForPsgdAndPqasgd) {
  for (const std::string algorithm : {"psgd", "pqasgd"}) {
    for (const std::string name : {"sgd", "momentum", "nesterov"})
      EXPECT_THAT(FaultsWith(algorithm, {"train." + algorithm + ".outer.name=" + name}), IsEmpty());
  }
  for (const std::string algorithm : {"ssgd", "odsgd", "rsgd", "easgd"})
    EXPECT_THAT(FaultsWith(algorithm, {"train." + algorithm + ".outer.name=sgd"}),
                ElementsAre(HasSubstr("train." + algorithm + ".outer: saw an unknown key")));
  EXPECT_THAT(FaultsWith("ssgd", {"train.psgd.outer.name=sgd"}),
              ElementsAre(HasSubstr("train.psgd: saw a section of psgd with algorithm: ssgd")));
}

TEST(OuterOptimizer, HasOneOfThreeNamesAndNumbersInRange) {
  const std::pair<const char*, const char*> cases[] = {
      {"name=adam", "train.psgd.outer.name: saw adam; allowed: one of sgd, momentum, nesterov"},
      {"learning_rate=0", "train.psgd.outer.learning_rate: saw 0; allowed: a number, more than 0"},
      {"momentum=1.5", "train.psgd.outer.momentum: saw 1.5; allowed: a number, 0 to 1"}};
  for (const auto& [setting, message] : cases)
    EXPECT_THAT(FaultsWith("psgd", {std::string("train.psgd.outer.") + setting}),
                ElementsAre(HasSubstr(message)));
  EXPECT_THAT(
      FaultsWith("pqasgd", {"train.pqasgd.outer.name=sgd", "train.pqasgd.outer.momentum=0.5"}),
      ElementsAre(HasSubstr("train.pqasgd.outer.momentum: saw a key that does not apply to the "
                            "outer optimizer sgd; allowed: nothing, because sgd does not use it; "
                            "remove the key, or set train.pqasgd.outer.name: momentum or "
                            "nesterov")));
}

// It pushes changes of the weights; with psgd, the state is pushed beside the weights.
TEST(OptimizerState, OfPqasgdIsNotAveraged) {
  for (const std::string at_sync : {"keep", "reset"})
    EXPECT_THAT(FaultsWith("pqasgd", {"train.pqasgd.at_sync=" + at_sync}), IsEmpty());
  EXPECT_THAT(FaultsWith("pqasgd", {"train.pqasgd.at_sync=average"}),
              ElementsAre(HasSubstr("train.pqasgd.at_sync: saw average; allowed: keep or reset")));
  EXPECT_THAT(FaultsWith("psgd", {"train.psgd.at_sync=average"}), IsEmpty());
}

TEST(Feedback, OfPqasgdIsForJobsThatAllowIt) {
  for (const std::string codec : {"onebit", "topk"}) {
    EXPECT_THAT(
        FaultsWith("pqasgd", {"exchange.codec=" + codec}),
        ElementsAre(HasSubstr("because pqasgd needs unbiased codes; or set train.pqasgd.feedback: "
                              "true")))
        << codec;
    EXPECT_THAT(FaultsWith("pqasgd", {"exchange.codec=" + codec, "train.pqasgd.feedback=true"}),
                IsEmpty())
        << codec;
  }
  EXPECT_THAT(FaultsWith("pqasgd", {"exchange.codec=fp16", "exchange.error_feedback=true",
                                    "train.pqasgd.feedback=true"}),
              IsEmpty());
  EXPECT_THAT(FaultsWith("pqasgd", {"exchange.codec=fp16", "exchange.error_feedback=true"}),
              ElementsAre(HasSubstr("exchange.error_feedback: saw true with algorithm: pqasgd; "
                                    "allowed: false, because pqasgd needs unbiased codes; or set "
                                    "train.pqasgd.feedback: true")));
  EXPECT_THAT(FaultsWith("pqasgd", {"train.pqasgd.feedback=false"}), IsEmpty());
}

TEST(Feedback, NeedsACodecThatHasIt) {
  for (const std::string codec : {"fp32", "ternary", "qsgd"})
    EXPECT_THAT(FaultsWith("pqasgd", {"exchange.codec=" + codec, "train.pqasgd.feedback=true"}),
                ElementsAre(HasSubstr("train.pqasgd.feedback: saw true; allowed: false, because no "
                                      "tensor has a codec with feedback")))
        << codec;
}

// A momentum of gradients is not one of changes.
TEST(Feedback, OfChangesHasNoMomentumOfTopK) {
  EXPECT_THAT(
      FaultsWith("pqasgd", {"exchange.codec=topk", "exchange.topk.momentum=0.9",
                            "train.optimizer.name=sgd", "train.pqasgd.feedback=true"}),
      ElementsAre(HasSubstr("exchange.topk.momentum: saw 0.9 with algorithm: pqasgd; allowed: 0")));
}

TEST(Fragments, DivideThePeriod) {
  for (const std::string fragments : {"1", "2", "4", "8"})
    EXPECT_THAT(FaultsWith("pqasgd", {"train.pqasgd.fragments=" + fragments}), IsEmpty());
  EXPECT_THAT(FaultsWith("pqasgd", {"train.pqasgd.p=32", "train.pqasgd.fragments=5"}),
              ElementsAre(HasSubstr("train.pqasgd.fragments: saw 5; allowed: a number that divides "
                                    "train.pqasgd.p (32), because a fragment is synchronized every "
                                    "p / fragments steps")));
  EXPECT_THAT(FaultsWith("pqasgd", {"train.pqasgd.fragments=0"}),
              ElementsAre(HasSubstr("train.pqasgd.fragments: saw 0")));
  EXPECT_THAT(FaultsWith("psgd", {"train.psgd.fragments=2"}),
              ElementsAre(HasSubstr("train.psgd.fragments: saw an unknown key")));
}

TEST(Fragments, AreNeededForOverlapAndMixing) {
  EXPECT_THAT(FaultsWith("pqasgd", {"train.pqasgd.fragments=2", "train.pqasgd.overlap=true",
                                    "train.pqasgd.mixing=0.25"}),
              IsEmpty());
  EXPECT_THAT(FaultsWith("pqasgd", {"train.pqasgd.fragments=2", "train.pqasgd.overlap=false"}),
              IsEmpty());
  for (const std::string setting : {"overlap=true", "mixing=0.25"})
    EXPECT_THAT(FaultsWith("pqasgd", {"train.pqasgd." + setting}),
                ElementsAre(HasSubstr("saw a key that has no effect in this job; allowed: nothing, "
                                      "because it is for fragments, and train.pqasgd.fragments is "
                                      "1")))
        << setting;
  EXPECT_THAT(FaultsWith("pqasgd", {"train.pqasgd.fragments=2", "train.pqasgd.overlap=false",
                                    "train.pqasgd.mixing=0.25"}),
              ElementsAre(HasSubstr("train.pqasgd.mixing: saw a key that has no effect in this "
                                    "job; allowed: nothing, because without overlap a worker takes "
                                    "the common weights as they are")));
  EXPECT_THAT(FaultsWith("pqasgd", {"train.pqasgd.fragments=2", "train.pqasgd.mixing=1.5"}),
              ElementsAre(HasSubstr("train.pqasgd.mixing: saw 1.5; allowed: a number, 0 to 1")));
}

TEST(Fragments, HaveCodecsWithoutFeedback) {
  EXPECT_THAT(
      FaultsWith("pqasgd",
                 {"exchange.codec=topk", "train.pqasgd.feedback=true", "train.pqasgd.fragments=2"}),
      ElementsAre(HasSubstr("train.pqasgd.feedback: saw true with train.pqasgd.fragments: 2; "
                            "allowed: false, because codecs with feedback need rounds of the whole "
                            "model; or set train.pqasgd.fragments: 1")));
}

TEST(Order, OfTheModelsPartsIsOneOfTwo) {
  for (const std::string order : {"in_turn", "random"})
    EXPECT_THAT(FaultsWith("rsgd", {"train.rsgd.order=" + order}), IsEmpty());
  EXPECT_THAT(FaultsWith("rsgd", {"train.rsgd.order=sorted"}),
              ElementsAre(HasSubstr("train.rsgd.order: saw sorted; allowed: one of in_turn, "
                                    "random")));
}

}  // namespace
}  // namespace tern::config
