// Tests of writing, reading and checking profiles. A profile is a file with the measured speeds of
// a model and of the codecs on one machine.
#include "tools/forecast/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"
#include "tests/limited_memory.h"
#include "tools/forecast/report.h"

namespace tern::tools {
namespace {

using testing::HasSubstr;

Profile LeNetProfile() {
  Profile profile;
  profile.model = "lenet";
  profile.machine = "here";
  profile.parameters = 431080;
  profile.compute_fixed_s = 0.001;
  profile.compute_sample_s = 0.0002;
  profile.need_shares = {0, 0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.3};
  profile.ready_shares = {1, 0.95, 0.9, 0.5, 0.4, 0.35, 0.3, 0.3};
  profile.update_s = 1e-9;
  profile.codecs["fp32"] = {1e-10, 2e-10, 3e-10, 4e-10, 5e-10, 6e-10};
  return profile;
}

TEST(Profile, SurvivesWritingAndReading) {
  const Profile profile = LeNetProfile();
  const auto reparsed_profile = Profile::Parse(profile.ToJson(), "test");
  ASSERT_TRUE(reparsed_profile.ok()) << reparsed_profile.status().message();
  EXPECT_EQ(reparsed_profile->ToJson(), profile.ToJson());
  EXPECT_EQ(reparsed_profile->parameters, 431080u);
  EXPECT_EQ(reparsed_profile->need_shares, profile.need_shares);
  EXPECT_EQ(reparsed_profile->ready_shares, profile.ready_shares);
  EXPECT_EQ(reparsed_profile->codecs.at("fp32").apply_s, 6e-10);
  EXPECT_FALSE(reparsed_profile->waits);
}

TEST(Profile, IsPrintedWithItsModelIfThatHasAName) {
  Profile profile = LeNetProfile();
  EXPECT_THAT(ProfileText(profile, 8), testing::StartsWith("profile of here: lenet, 431080 "));
  profile.model = "";
  EXPECT_THAT(ProfileText(profile, 8), testing::StartsWith("profile of here: 431080 parameters"));
}

std::string ReplaceText(std::string json, const std::string& old_text,
                        const std::string& new_text) {
  const size_t begin = json.find(old_text);
  EXPECT_NE(begin, std::string::npos) << old_text;
  return begin == std::string::npos ? json : json.replace(begin, old_text.size(), new_text);
}
std::string ErrorMessageOf(const std::string& json) {
  const auto profile = Profile::Parse(json, "the file");
  EXPECT_FALSE(profile.ok());
  if (profile.ok()) return "";
  EXPECT_EQ(profile.status().code(), Code::kBadData);
  return profile.status().message();
}

TEST(Profile, ReportsAllErrors) {
  const std::string json = LeNetProfile().ToJson();
  EXPECT_THAT(ErrorMessageOf("nonsense"), HasSubstr("the file is not a profile"));
  EXPECT_THAT(ErrorMessageOf("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorMessageOf("{}"), testing::AllOf(HasSubstr("version is missing"),
                                                   HasSubstr("compute_sample_s is missing"),
                                                   HasSubstr("codecs is missing")));
  EXPECT_THAT(ErrorMessageOf(ReplaceText(json, "\"version\": 2", "\"version\": 1")),
              HasSubstr("version is 1, this build reads 2"));
  EXPECT_THAT(ErrorMessageOf(ReplaceText(json, "\"hop_s\": 0.0", "\"hop_s\": -1.0")),
              HasSubstr("hop_s is -1.0, expected a number of seconds, 0 or more"));
  EXPECT_THAT(ErrorMessageOf(ReplaceText(json, "0.95", "1.95")), HasSubstr("not between 0 and 1"));
  EXPECT_THAT(ErrorMessageOf(ReplaceText(json, "\"encode\"", "\"decoda\"")),
              HasSubstr("codecs.fp32.encode is missing"));
  EXPECT_THAT(ErrorMessageOf(ReplaceText(json, "\"waits\": false", "\"waits\": 3")),
              HasSubstr("waits is not true or false"));
}

TEST(Profile, RefusesAnotherModel) {
  e2e::TestJob job;
  const auto setup = setup::MakeSetup(job.job_file(), {});
  ASSERT_TRUE(setup.ok()) << setup.status().message();
  EXPECT_TRUE(LeNetProfile().CheckFor(**setup).ok());
  Profile smaller_profile = LeNetProfile();
  smaller_profile.parameters = 12;
  EXPECT_THAT(
      smaller_profile.CheckFor(**setup).message(),
      HasSubstr("with lenet of 12 parameters in 8 tensors, but the job's model has 431080"));
}

TEST(Profile, ListsTheMeasuredCodecs) {
  EXPECT_TRUE(LeNetProfile().SpeedOf("fp32").ok());
  EXPECT_THAT(LeNetProfile().SpeedOf("qsgd").status().message(),
              HasSubstr("no measurement of codec qsgd; it has fp32"));
}

TEST(Profile, RefusesAHugeFileWithLittleMemory) {
  const e2e::TestJob job;
  const std::string path = job.folder() + "/profile.json";
  constexpr size_t kHugeBytes = 64 << 20;
  std::ofstream(path) << std::string(kHugeBytes, ' ');
  EXPECT_THAT(Profile::Read(path).status().message(),
              HasSubstr("profile.json has more than 4194304 bytes"));
  std::ofstream(path) << "{\"codecs\":" << std::string(1 << 20, '[');
  EXPECT_THAT(Profile::Read(path).status().message(), HasSubstr("not a JSON object"));
  TERN_EXPECT_WITHIN_MEMORY(16 << 20, !Profile::Read(path).ok());
}

TEST(Profile, ReportsAMissingFile) {
  EXPECT_THAT(Profile::Read("/nowhere/p.json").status().message(),
              HasSubstr("the profile: cannot open /nowhere/p.json: No such file"));
}

}  // namespace
}  // namespace tern::tools
