#include <gmock/gmock.h>

#include "common/setup/setup.h"

namespace tern::setup {
namespace {

using ::testing::ElementsAre;

TEST(KnownNames, SayOfTheCodecsWhatRulesWantToKnow) {
  const config::NameTables names = KnownNames();
  EXPECT_THAT(names.at("codecs"), ElementsAre("fp32", "fp16", "bf16", "ternary"));
  EXPECT_THAT(names.at("float_codecs"), ElementsAre("fp32", "fp16", "bf16"));
  EXPECT_THAT(names.at("sharing_codecs"), ElementsAre("ternary"));
  EXPECT_THAT(names.at("local_updaters"), ElementsAre("none", "sgd", "dcasgd_c", "dcasgd_a"));
}

}  // namespace
}  // namespace tern::setup
