// Tests of the names of codecs and updaters that a job may use, and of the codecs for pulled
// weights.
#include <gmock/gmock.h>

#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

TEST(KnownNames, GroupTheCodecsAsTheRulesNeed) {
  const config::NameTables names = KnownNames();
  EXPECT_THAT(names.at("codecs"),
              IsSupersetOf({"fp32", "fp16", "bf16", "ternary", "qsgd", "topk"}));
  EXPECT_THAT(names.at("float_codecs"), ElementsAre("fp32", "fp16", "bf16"));
  EXPECT_THAT(names.at("exact_codecs"), ElementsAre("fp32"));
  EXPECT_THAT(names.at("rounding_codecs"), ElementsAre("fp32", "fp16", "bf16", "onebit", "topk",
                                                       "threshold", "adaptive", "adacomp"));
  EXPECT_THAT(names.at("unbiased_codecs"), Contains("qsgd"));
  EXPECT_THAT(names.at("unbiased_codecs"), Not(Contains("onebit")));
  EXPECT_THAT(names.at("sharing_codecs"), Contains("ternary"));
  EXPECT_THAT(names.at("sharing_codecs"), Not(Contains("qsgd")));
  EXPECT_THAT(names.at("only_sharing_codecs"), ElementsAre("qsgd_shared", "qsgd_shared_ans"));
  EXPECT_THAT(names.at("outer_optimizers"), ElementsAre("sgd", "momentum", "nesterov"));
  EXPECT_THAT(names.at("local_updaters"), ElementsAre("none", "sgd", "dcasgd_c", "dcasgd_a"));
}

TEST(PullCodec, OfChangesIsAnyDeterministicCodec) {
  for (const std::string& name : codec::CodecNames()) {
    SCOPED_TRACE(name);
    const auto codec = codec::MakeCodec(name, {});
    ASSERT_TRUE(codec.ok());
    // The codec of pushes (exchange.rules) must not affect which pull codecs are valid.
    for (const char* push_codec : {"fp32", "ternary"}) {
      const auto job = MakeSetup(
          SmallJobFile().path(),
          {"train.parameters=central", "exchange.pull=changes", "exchange.pull_codec=" + name,
           "exchange.rules=[{codec: " + std::string(push_codec) + "}]"});
      ASSERT_EQ(job.ok(), !(*codec)->is_stochastic()) << job.status().message();
      if (job.ok()) {
        EXPECT_EQ((*job)->plan.pull_codec->name(), name);
      } else {
        EXPECT_THAT(job.status().message(),
                    HasSubstr("exchange.pull_codec: saw " + name + " with pull: changes"));
      }
    }
  }
}

}  // namespace
}  // namespace tern::setup
