// Tests of the checks of a job's network against its batches, and of the warnings about keys that
// have no effect on the network.
#include "setup/net_check.h"

#include <gmock/gmock.h>

#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A net whose largest tensor has 16384 x 28 x 28 elements: 167 images have less than 2^31.
Status StatusOfWideNet(const std::vector<std::string>& overrides) {
  const SmallJobFile file;
  std::vector<std::string> all = {
      "model={net: {layers: [{name: wide, conv: {outputs: 16384, kernel: 1}}, "
      "{name: pool, avg_pool: {global: true}}, {name: scores, dense: {outputs: 10}}, "
      "{name: loss, softmax_loss: {}}]}}"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return MakeSetup(file.path(), all).status();
}

TEST(CheckTensorSizes, NamesTheBatchThatIsTooLarge) {
  const Status evaluation = StatusOfWideNet({"train.batch_total=2"});
  EXPECT_EQ(evaluation.code(), Code::kBadJob);
  EXPECT_THAT(evaluation.message(),
              HasSubstr("evaluation.batch: saw 250, with which tensor \"wide\" has more than 2^31 "
                        "elements; allowed: at most 167"));
  const Status training = StatusOfWideNet({"train.batch_total=336", "evaluation.batch=167"});
  EXPECT_EQ(training.code(), Code::kBadJob);
  EXPECT_THAT(training.message(),
              HasSubstr("train.batch_total: saw 336, with which tensor \"wide\" "
                        "has more than 2^31 elements; allowed: at most 334"));
  const Status valid = StatusOfWideNet({"train.batch_total=334", "evaluation.batch=167"});
  EXPECT_TRUE(valid.ok()) << valid.message();
  EXPECT_TRUE(StatusOfWideNet({"train.compute=wait"}).ok());
}

TEST(WarningsOfNet, NameDropoutWithoutSuchALayer) {
  const std::string vgg =
      "model={name: vgg16, input_channels: 3, input_height: SIZE, "
      "input_width: SIZE, dropout: 0.3}";
  const auto with_size = [&](const std::string& size) {
    std::string text = vgg;
    for (size_t i = 0; (i = text.find("SIZE", i)) != std::string::npos;) text.replace(i, 4, size);
    return SmallSetup({text, "evaluation.batch=10"})->job_warnings;
  };
  EXPECT_THAT(with_size("32"), ElementsAre("model.dropout has no effect, because vgg16 has no "
                                           "dropout layers at 32 x 32 pixels"));
  EXPECT_THAT(with_size("96"), IsEmpty());
}

TEST(WarningsOfNet, NameRulesOfFrozenTensorsOnly) {
  const auto warnings = [](const std::string& tensors) {
    return SmallSetup({"train.freeze=['conv1.*']",
                       "train.schedule.rules=[{tensors: '" + tensors + "', times: 3}]"})
        ->job_warnings;
  };
  EXPECT_THAT(warnings("conv1.*"),
              ElementsAre("train.schedule.rules[0] has no effect, because all tensors that it "
                          "matches are frozen"));
  EXPECT_THAT(warnings("conv*"), IsEmpty());
}

}  // namespace
}  // namespace tern::setup
