// Tests of the warnings about keys that a job sets though nothing reads them.
#include "common/config/ignored_keys.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>

#include <string>
#include <vector>

#include "tests/common/config/every_key.h"
#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::vector<std::string> WarningsOf(const std::string& text,
                                    const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> warnings;
  const Result<pb::Job> job = ParseJob(text, "job.yaml", overrides, TestTables(), {}, &warnings);
  EXPECT_TRUE(job.ok()) << job.status().message();
  return warnings;
}
// The warnings of SmallJob with these settings.
std::vector<std::string> WarningsWith(const std::vector<std::string>& settings) {
  return WarningsOf(SmallJob(), settings);
}

TEST(IgnoredKeys, AreNamedWithTheirPlaceAndTheReason) {
  EXPECT_THAT(
      WarningsOf(SmallJob() + "  schedule: {name: fixed, power: 2}\n",
                 {"train.optimizer.name=sgd", "train.optimizer.momentum=0.9"}),
      ElementsAre("--set train.optimizer.momentum=0.9: train.optimizer.momentum has no effect, "
                  "because train.optimizer.name is sgd",
                  "job.yaml:12:34: train.schedule.power has no effect, because "
                  "train.schedule.name is fixed"));
}

TEST(IgnoredKeys, AreNoneInAJobThatReadsThem) {
  EXPECT_THAT(WarningsOf(SmallJob()), IsEmpty());
  EXPECT_THAT(WarningsWith({"train.schedule={name: poly, power: 2}", "train.optimizer.momentum=0.5",
                            "exchange={codec: ternary, clip: official, clip_sigma: 2, "
                            "scaler: previous, max_scaler: 9}"}),
              IsEmpty());
}

// The step after the warm-up is ssgd's, too.
TEST(IgnoredKeys, IncludeAnAlgorithmThatTheJobIsTooShortFor) {
  const auto warnings = [](const std::string& length, const std::string& odsgd) {
    return WarningsWith({"train.algorithm=odsgd", length, "train.odsgd=" + odsgd});
  };
  EXPECT_THAT(warnings("train.steps=201", "{}"),
              ElementsAre("train.odsgd.warmup_steps is 200, and the job has 201 steps: every step "
                          "is one of ssgd"));
  EXPECT_THAT(warnings("train.steps=202", "{}"), IsEmpty());
  EXPECT_THAT(warnings("train.steps=10", "{warmup_steps: 3}"), IsEmpty());
  EXPECT_THAT(warnings("train.steps=10", "{warmup_steps: 9}"), ElementsAre(HasSubstr("of ssgd")));
  EXPECT_THAT(WarningsWith({"train.algorithm=odsgd", "train.steps=null", "train.epochs=2",
                            "train.odsgd.warmup_epochs=2"}),
              ElementsAre(HasSubstr("warmup_epochs is 2, and the job has 2 epochs")));
  EXPECT_THAT(WarningsWith({"train.steps=10"}), IsEmpty());
}

// Workers and servers first exchange weights in the step after tau. Without rounds the workers go
// on until then.
TEST(IgnoredKeys, IncludeLocalStepsThatTheJobIsTooShortFor) {
  const auto warnings = [](const std::string& name, const std::string& steps) {
    return WarningsWith({"train.algorithm=" + name, "exchange.codec=fp32",
                         "train." + name + ".tau=30", "train.steps=" + steps});
  };
  EXPECT_THAT(warnings("easgd", "30"),
              ElementsAre("workers with easgd exchange weights every 30 steps, and the job has 30: "
                          "the result is the first weights"));
  EXPECT_THAT(warnings("easgd", "31"), IsEmpty());
  EXPECT_THAT(warnings("easgd_async", "29"),
              ElementsAre("workers with easgd_async push every 30 steps, and the job has 29: each "
                          "worker takes 30 or more"));
  EXPECT_THAT(warnings("easgd_async", "30"), IsEmpty());
}

TEST(IgnoredKeys, AreThoseThatTheNetworkOfTheJobSaysItself) {
  const auto warnings = [](const std::string& net) {
    return WarningsWith({"model={input_width: 8, classes: 3, net: {" + net +
                         "layers: [{name: loss, softmax_loss: {}}]}}"});
  };
  EXPECT_THAT(warnings(""), IsEmpty());
  EXPECT_THAT(warnings("classes: 3, "), ElementsAre(HasSubstr("model.classes has no effect")));
  EXPECT_THAT(warnings("input: {channels: 1, height: 8, width: 8}, "),
              ElementsAre(HasSubstr("model.input_width has no effect")));
}

TEST(IgnoredKeys, AreThoseOfCropsOfTheWholeImage) {
  const auto warnings = [](const std::string& augmentation) {
    return WarningsWith({"data.augmentation={" + augmentation + "}"});
  };
  EXPECT_THAT(warnings("pad: 4"), ElementsAre(HasSubstr("augmentation.pad has no effect")));
  EXPECT_THAT(warnings("random_crop: true"),
              ElementsAre(HasSubstr("augmentation.random_crop has no effect")));
  for (const char* augmentation : {"pad: 4, random_crop: true", "pad: 4, height: 32, width: 32",
                                   "mirror: true", "random_crop: true, height: 20, width: 20"})
    EXPECT_THAT(warnings(augmentation), IsEmpty()) << augmentation;
}

// The key that decides may have its default.
TEST(IgnoredKeys, DependOnDefaults) {
  EXPECT_THAT(WarningsWith({"train.optimizer.beta1=0.5"}),
              ElementsAre(HasSubstr("beta1 has no effect, because train.optimizer.name is "
                                    "momentum")));
  EXPECT_THAT(WarningsWith({"exchange={codec: qsgd_shared, clip_sigma: 2}"}),
              ElementsAre(HasSubstr("clip_sigma has no effect, because exchange.clip is none")));
  EXPECT_THAT(WarningsWith({"train.schedule.milestones=[5, 9]"}),
              ElementsAre(HasSubstr("milestones has no effect, because train.schedule.name is "
                                    "fixed")));
}

TEST(IgnoredKeys, IncludeAScheduleThatTheJobIsTooShortFor) {
  EXPECT_THAT(WarningsWith({"train.steps=5", "train.schedule={name: cosine, warmup_steps: 5}"}),
              ElementsAre("train.schedule.warmup_steps is 5, and the job has 5 steps: the learning "
                          "rate never reaches the schedule's"));
  EXPECT_THAT(WarningsWith({"train.steps=6", "train.schedule={name: cosine, warmup_steps: 5}"}),
              IsEmpty());
}

TEST(IgnoredKeys, IncludeMilestonesThatTheJobDoesNotReach) {
  const auto warnings = [](const std::string& milestones) {
    return WarningsWith({"train.steps=100", "train.schedule.name=multistep",
                         "train.schedule.milestones=" + milestones});
  };
  EXPECT_THAT(warnings("[50, 99]"), IsEmpty());
  EXPECT_THAT(warnings("[50, 100]"), ElementsAre(HasSubstr("saw 100, and the job has 100 steps")));
}

TEST(IgnoredKeys, AreThoseOfWhatIsOff) {
  EXPECT_THAT(WarningsWith({"checkpoints.keep=3"}),
              ElementsAre(HasSubstr("because checkpoints.every_steps is 0")));
  EXPECT_THAT(WarningsWith({"checkpoints.keep=3", "checkpoints.every_steps=10"}), IsEmpty());
  EXPECT_THAT(WarningsWith({"metrics.host=\"::1\"", "metrics.same_port=true"}),
              ElementsAre(HasSubstr("metrics.host has no effect, because metrics.port is 0"),
                          HasSubstr("metrics.same_port has no effect")));
  EXPECT_THAT(WarningsWith({"metrics.host=\"::1\"", "metrics.port=7600"}), IsEmpty());
  EXPECT_THAT(WarningsWith({"train.weight_decay.where=local", "train.weight_decay.rate=0"}),
              ElementsAre(HasSubstr("train.weight_decay.where has no effect")));
  EXPECT_THAT(WarningsWith({"train.weight_decay.where=local",
                            "train.weight_decay.rules=[{tensors: \"*\", rate: 0.1}]"}),
              IsEmpty());
}

TEST(IgnoredKeys, AreThoseOfScalersWithoutACodecThatHasThem) {
  const std::string reason =
      "no effect, because no tensor has a codec with scalers: a ternary one, or qsgd_shared";
  EXPECT_THAT(WarningsWith({"exchange={codec: fp32, clip: none, scaler: per_worker}"}),
              ElementsAre(HasSubstr("exchange.scaler has " + reason),
                          HasSubstr("exchange.clip has " + reason)));
  EXPECT_THAT(WarningsWith({"exchange={codec: fp32, clip: none, rules: [{codec: ternary}]}"}),
              IsEmpty());
  EXPECT_THAT(WarningsWith({"exchange={codec: fp32, clip: paper, scaler: shared}"}), IsEmpty());
}

TEST(IgnoredKeys, AreThoseOfRoundsAndOfServersThatHoldTheWeights) {
  const std::string rounds =
      " has no effect, because asgd has no rounds, so the job does that only at its end";
  const std::vector<std::string> asgd = {"train.algorithm=asgd", "evaluation.every_steps=10",
                                         "faults.compare_every_steps=5",
                                         "checkpoints.shard_every_steps=50"};
  EXPECT_THAT(WarningsWith(asgd), ElementsAre(HasSubstr("evaluation.every_steps" + rounds),
                                              HasSubstr("faults.compare_every_steps" + rounds)));
  EXPECT_THAT(WarningsWith({"evaluation.every_steps=10", "faults.compare_every_steps=5"}),
              IsEmpty());
  EXPECT_THAT(WarningsWith({"checkpoints={shard_every_steps: 50, shard_keep: 4}"}),
              ElementsAre(HasSubstr("shard_every_steps has no effect, because the workers hold the "
                                    "weights"),
                          HasSubstr("shard_keep has no effect")));
  EXPECT_THAT(WarningsWith({"train.algorithm=asgd", "evaluation.every_steps=0",
                            "faults.compare_every_steps=100"}),
              IsEmpty());
}

// Servers send changes with the codes alone: what a worker does before it codes is not done there.
TEST(IgnoredKeys, AreThoseOfPushesIfOnlyThePullHasTheCodec) {
  const auto warnings = [](const std::string& codecs) {
    return WarningsWith({"train.parameters=central", "train.optimizer.name=sgd",
                         "exchange={pull: changes, " + codecs + "}"});
  };
  const std::string topk = "topk: {momentum: 0.9, masking: false, clip_norm: 1, ratio: 0.1}";
  const std::string reason = " has no effect, because only workers have it";
  EXPECT_THAT(warnings("codec: fp32, pull_codec: topk, " + topk),
              ElementsAre(HasSubstr("exchange.topk.momentum" + reason),
                          HasSubstr("exchange.topk.masking" + reason),
                          HasSubstr("exchange.topk.clip_norm" + reason)));
  EXPECT_THAT(warnings("codec: topk, pull_codec: topk, " + topk), IsEmpty());
  EXPECT_THAT(
      warnings("codec: fp32, pull_codec: threshold, threshold: {scope: global, ratio: 0.1}"),
      ElementsAre(HasSubstr("exchange.threshold.scope has no effect")));
}

TEST(IgnoredKeys, IncludeErrorFeedbackOfCodecsThatDoNotReadIt) {
  for (const std::string codec : {"fp32", "topk", "onebit"})
    EXPECT_THAT(
        WarningsWith({"exchange={codec: " + codec + ", error_feedback: true}"}),
        ElementsAre(HasSubstr("exchange.error_feedback has no effect, because no tensor has "
                              "the codec fp16 or bf16")));
  EXPECT_THAT(WarningsWith({"exchange={codec: fp16, error_feedback: true}"}), IsEmpty());
}

TEST(IgnoredKeys, IncludeThoseOfALocalUpdaterThatDoesNothing) {
  const auto warnings = [](const std::string& name) {
    return WarningsWith(
        {"train.algorithm=odsgd", "train.odsgd={warmup_steps: 1, local: {name: " + name +
                                      ", momentum: 0.9, learning_rate: 0.3, "
                                      "grad_scale: global_mean}}"});
  };
  EXPECT_THAT(warnings("none"),
              UnorderedElementsAre(HasSubstr("local.momentum has no effect, because "
                                             "train.odsgd.local.name is none"),
                                   HasSubstr("local.learning_rate has no effect"),
                                   HasSubstr("local.grad_scale has no effect")));
  EXPECT_THAT(warnings("sgd"), IsEmpty());
}

TEST(IgnoredKeys, AreNotAllNamedIfTheyAreMany) {
  std::vector<std::string> warnings;
  const auto job = LoadJob("configs/reference.yaml", {}, TestTables(), {}, &warnings);
  ASSERT_TRUE(job.ok()) << job.status().message();
  ASSERT_EQ(warnings.size(), 9u);
  EXPECT_THAT(warnings[7], HasSubstr(" has no effect, because "));
  EXPECT_THAT(warnings[8], MatchesRegex("the job sets [1-9][0-9]* more keys without effect"));
}

// What one program writes, another reads: nobody is warned of what only Tern has written.
TEST(IgnoredKeys, AreNotWrittenUnlessTheJobSetsThem) {
  for (const std::string exchange : {"codec: ternary", "codec: fp32", "codec: qsgd_shared"}) {
    const auto job = Parse(SmallJob() + "exchange: {" + exchange + "}\n");
    ASSERT_TRUE(job.ok()) << job.status().message();
    EXPECT_THAT(WarningsOf(ToYaml(*job)), IsEmpty()) << ToYaml(*job);
  }
  const auto job = Parse(SmallJob(), {"train.schedule.power=2"});
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_THAT(ToYaml(*job), HasSubstr("    power: 2\n"));
  EXPECT_THAT(ToYaml(*job), Not(HasSubstr("pct_start")));
  const auto parsed_again = Parse(ToYaml(*job));
  ASSERT_TRUE(parsed_again.ok()) << parsed_again.status().message();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*job, *parsed_again));
}

// The names of the values that `field` may have; empty for numbers and free texts.
std::vector<std::string> ValuesOf(const FieldDescriptor* field) {
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) return NamesOf(field->enum_type());
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return {"true", "false"};
  const auto table = TestTables().find(RuleOf(field).table());
  return table == TestTables().end() ? std::vector<std::string>{} : table->second;
}

TEST(IgnoredKeys, DependOnExistingKeysAndValues) {
  pb::Job job;
  Populate(&job);
  int num_conditions = 0;
  ForEachScalar(&job, "", false,
                [&](Message* message, const FieldDescriptor* field, const std::string& key, bool) {
                  if (!RuleOf(field).has_effective_if()) return;
                  ++num_conditions;
                  const pb::Condition& condition = RuleOf(field).effective_if();
                  const auto* other = message->GetDescriptor()->FindFieldByName(condition.key());
                  ASSERT_NE(other, nullptr) << key;
                  EXPECT_NE(condition.is().empty(), condition.is_not().empty()) << key;
                  for (const auto& values : {condition.is(), condition.is_not()}) {
                    for (const std::string& value : values) {
                      if (value == "0") continue;
                      EXPECT_THAT(ValuesOf(other), Contains(value)) << key;
                    }
                  }
                });
  EXPECT_GE(num_conditions, 30);
}

}  // namespace
}  // namespace tern::config
