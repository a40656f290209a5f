#include <gmock/gmock.h>

#include "common/setup/setup.h"

namespace tern::setup {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;

TEST(KnownNames, SayOfTheCodecsWhatRulesWantToKnow) {
  const config::NameTables names = KnownNames();
  EXPECT_THAT(names.at("codecs"),
              IsSupersetOf({"fp32", "fp16", "bf16", "ternary", "qsgd", "topk"}));
  EXPECT_THAT(names.at("float_codecs"), ElementsAre("fp32", "fp16", "bf16"));
  EXPECT_THAT(names.at("unbiased_codecs"), Contains("qsgd"));
  EXPECT_THAT(names.at("unbiased_codecs"), Not(Contains("onebit")));
  EXPECT_THAT(names.at("sharing_codecs"), Contains("ternary"));
  EXPECT_THAT(names.at("sharing_codecs"), Not(Contains("qsgd")));
  EXPECT_THAT(names.at("local_updaters"), ElementsAre("none", "sgd", "dcasgd_c", "dcasgd_a"));
}

}  // namespace
}  // namespace tern::setup
