// Tests of the rules between the keys of a job's section `data`, which includes augmentation.
#include <gmock/gmock.h>

#include <string>

#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A job and the expected error. The job is SmallJob, whose model takes one channel, with `data`
// (YAML) as its section `data`. If the error is empty, the job must be accepted.
struct RuleCase {
  const char* data;
  const char* expected_error;
};
void PrintTo(const RuleCase& c, std::ostream* out) { *out << c.data; }

class DataRule : public ::testing::TestWithParam<RuleCase> {};
TEST_P(DataRule, IsHeld) {
  const std::string text =
      SmallJobWith("data:\n  dir: /data\n", std::string("data: ") + GetParam().data + "\n");
  const auto faults = FaultsOf(text);
  if (GetParam().expected_error[0] == '\0') {
    EXPECT_THAT(faults, ElementsAre()) << text;
  } else {
    EXPECT_THAT(faults, ElementsAre(HasSubstr(GetParam().expected_error))) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Data, DataRule,
    ::testing::Values(
        RuleCase{"{dir: /d, mean: [0.5], std: [0.2]}", ""},
        RuleCase{"{dir: /d, scale: 2, offset: -1}", ""},
        RuleCase{"{dir: /d, mean: [0.5], std: [0.2], scale: 2}",
                 "data.scale: saw 2; allowed: nothing with data.mean and data.std"},
        RuleCase{"{dir: /d, mean: [0.5], std: [0.2], offset: -1}",
                 "data.offset: saw -1; allowed: nothing with"},
        RuleCase{"{dir: /d, mean: [0.5, 0.5, 0.5], std: [0.2]}",
                 "data.mean: saw 3 values; allowed: one for each of the model's 1 channels"},
        RuleCase{"{dir: /d, mean: [0.5]}", "data.std: saw 0 values; allowed: one for each"},
        RuleCase{"{dir: /d, mean: [0.5], std: [0]}", "data.std[0]: saw 0"},
        RuleCase{
            "{dir: /d, augmentation: {area_min: 0.5, area_max: 0.25}}",
            "data.augmentation.area_min: saw 0.5; allowed: at most data.augmentation.area_max"},
        RuleCase{"{dir: /d, augmentation: {aspect_min: 2}}", "aspect_min: saw 2; allowed: at most"},
        RuleCase{"{dir: /d, augmentation: {contrast_min: 2}}",
                 "contrast_min: saw 2; allowed: at most data.augmentation.contrast_max (1)"},
        RuleCase{"{dir: /d, augmentation: {random_resized_crop: true, height: 8, width: 8}}", ""},
        RuleCase{"{dir: /d, augmentation: {random_resized_crop: true, height: 8}}",
                 "random_resized_crop: saw true without height and width"}));

// The input is then that of model.input_channels.
TEST(DataRules, AcceptMeansForANetworkThatDoesNotSayItsInput) {
  std::string text =
      SmallJobWith("  name: lenet\n", "  net: {layers: [{name: loss, softmax_loss: {}}]}\n");
  text.replace(text.find("  dir: /data\n"), 0, "  mean: [0.5]\n  std: [0.2]\n");
  EXPECT_THAT(FaultsOf(text), ElementsAre());
}

}  // namespace
}  // namespace tern::config
