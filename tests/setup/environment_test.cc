// Tests of what the environment says of a process's place in a job.
#include "setup/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Variables = std::map<std::string, std::string>;

// An environment that has only these variables.
Environment Of(const Variables& variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

// "3 from RANK", "none", or the error.
std::string TextOf(const Result<std::optional<EnvironmentNumber>>& number) {
  if (!number.ok()) return number.status().message();
  if (!number->has_value()) return "none";
  return std::to_string((*number)->value) + " from " + (*number)->variable;
}

std::string RankText(const Variables& variables) { return TextOf(RankOf(Of(variables))); }

TEST(Environment, TakesTheRankFromTheFirstVariableThatIsSet) {
  Variables variables = {{"RANK", "5"}};
  EXPECT_EQ(RankText(variables), "5 from RANK");
  variables["JOB_COMPLETION_INDEX"] = "4";
  EXPECT_EQ(RankText(variables), "4 from JOB_COMPLETION_INDEX");
  variables["SLURM_PROCID"] = "1";
  EXPECT_EQ(RankText(variables), "1 from SLURM_PROCID");
  variables["TERN_RANK"] = "0";
  EXPECT_EQ(RankText(variables), "0 from TERN_RANK");
  EXPECT_EQ(RankText({{"OMPI_COMM_WORLD_RANK", "2"}, {"PMI_RANK", "3"}}),
            "2 from OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(RankText({{"PMI_RANK", "3"}, {"JOB_COMPLETION_INDEX", "4"}}), "3 from PMI_RANK");
  EXPECT_EQ(RankText({}), "none");
  EXPECT_EQ(RankText({{"TERN_RANK", ""}}), "none");
}

TEST(Environment, HasTheNumberOfTheLaunch) {
  const auto launch_of = [](const std::string& value) {
    return LaunchOf(Of({{kLaunchVariable, value}}));
  };
  EXPECT_EQ(*LaunchOf(Of({})), 0u);
  EXPECT_EQ(LaunchEntry(0), "TERN_LAUNCH=");
  EXPECT_EQ(*launch_of(""), 0u);
  EXPECT_EQ(LaunchEntry(0xabc), "TERN_LAUNCH=0000000000000abc");
  EXPECT_EQ(*launch_of("0000000000000abc"), 0xabcu);
  for (const char* text : {"0", "x", "1 ", "-1", "11111111111111111"}) {
    const auto launch = launch_of(text);
    EXPECT_EQ(launch.status().code(), Code::kUsage) << text;
    EXPECT_THAT(launch.status().message(),
                AllOf(HasSubstr(Cat("TERN_LAUNCH: saw '", text)), HasSubstr("unset it")));
  }
}

TEST(Environment, HasTheNumberOnTheHost) {
  const auto text = [](const Variables& variables) {
    const auto rank = LocalRankOf(Of(variables));
    return rank->has_value() ? Cat((*rank)->value, " from ", (*rank)->variable) : "none";
  };
  EXPECT_EQ(text({{"SLURM_LOCALID", "1"}}), "1 from SLURM_LOCALID");
  EXPECT_EQ(text({{"SLURM_LOCALID", "1"}, {"TERN_LOCAL_RANK", "0"}}), "0 from TERN_LOCAL_RANK");
  EXPECT_EQ(text({{"SLURM_LOCALID", "0"},
                  {"OMPI_COMM_WORLD_RANK", "5"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}),
            "2 from OMPI_COMM_WORLD_LOCAL_RANK");
  EXPECT_EQ(text({{"LOCAL_RANK", "3"}}), "3 from LOCAL_RANK");
  EXPECT_EQ(text({{"SLURM_PROCID", "3"}}), "none");
}

TEST(Environment, ALauncherInsideAnotherCounts) {
  EXPECT_EQ(RankText({{"SLURM_PROCID", "3"}, {"RANK", "1"}, {"TORCHELASTIC_RUN_ID", "x"}}),
            "1 from RANK");
  EXPECT_EQ(RankText({{"SLURM_PROCID", "0"}, {"OMPI_COMM_WORLD_RANK", "2"}}),
            "2 from OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(
      TextOf(WorldSizeOf(Of(
          {{"SLURM_NTASKS", "2"}, {"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}}))),
      "4 from OMPI_COMM_WORLD_SIZE");
}

TEST(Environment, RefusesWhatIsNoNumberAndNamesTheVariable) {
  for (const char* text : {"one", "1.5", "-1", " 1", "4294967296", "2147483648", "1\n"}) {
    const auto rank = RankOf(Of({{"SLURM_PROCID", text}, {"RANK", "1"}}));
    ASSERT_FALSE(rank.ok()) << text;
    EXPECT_EQ(rank.status().code(), Code::kUsage);
    EXPECT_THAT(rank.status().message(), HasSubstr("SLURM_PROCID: saw '")) << text;
  }
  EXPECT_THAT(TextOf(WorldSizeOf(Of({{"WORLD_SIZE", "0"}}))),
              HasSubstr("WORLD_SIZE: saw '0'; allowed: a whole number from 1"));
}

TEST(Environment, ABatchScriptWithoutSrunIsNoTask) {
  Variables variables = {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "3"}};
  EXPECT_THAT(RankText(variables), AllOf(HasSubstr("batch script"), HasSubstr("srun")));
  variables["TERN_RANK"] = "2";
  EXPECT_EQ(RankText(variables), "2 from TERN_RANK");
  variables.erase("TERN_RANK");
  variables["SLURM_STEP_ID"] = "4294967291";
  EXPECT_THAT(RankText(variables), HasSubstr("batch script"));
  variables["SLURM_STEP_ID"] = "0";
  EXPECT_EQ(RankText(variables), "0 from SLURM_PROCID");
  variables = {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}};
  EXPECT_EQ(RankText(variables), "0 from SLURM_PROCID");
  EXPECT_THAT(RankVariables(Of({{"SLURM_JOB_ID", "7"}})), HasSubstr("srun"));
}

TEST(Environment, ReadsThePlaceOfAJob) {
  EXPECT_EQ(JobFileOf(Of({{"TERN_JOB", "a.yaml"}})), "a.yaml");
  const config::Place place = PlaceOf(Of(
      {{"TERN_SERVERS", "a:1, [::1]:2,b:3\n"}, {"TERN_WORKERS", "4"}, {"TERN_OUTPUT_DIR", "/x"}}));
  EXPECT_THAT(place.servers, ElementsAre("a:1", "[::1]:2", "b:3"));
  EXPECT_EQ(place.workers, "4");
  EXPECT_EQ(place.output_dir, "/x");
  EXPECT_THAT(PlaceOf(Of({{"TERN_SERVERS", ""}})).servers, IsEmpty());
}

// Sets variables of this process while it lives.
class SetVariables {
 public:
  explicit SetVariables(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~SetVariables() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  SetVariables(const SetVariables&) = delete;
  SetVariables& operator=(const SetVariables&) = delete;

 private:
  const Variables variables_;
};

TEST(Environment, ReplacesKeysOfTheJobFileAndSetWinsOverIt) {
  const SetVariables variables({{"TERN_SERVERS", "127.0.0.1:7601,127.0.0.1:7602"},
                                {"TERN_WORKERS", "4"},
                                {"TERN_OUTPUT_DIR", "/tmp/x"}});
  const SmallJobFile file;
  const auto setup = MakeSetup(file.path(), {"workers.count=8"});
  ASSERT_TRUE(setup.ok()) << setup.status().message();
  const pb::Job& job = (*setup)->job;
  ASSERT_EQ(job.servers_size(), 2);
  EXPECT_EQ(job.servers(1).address(), "127.0.0.1:7602");
  EXPECT_EQ(job.workers().count(), 8u);
  EXPECT_EQ(job.output_dir(), "/tmp/x");
  EXPECT_THAT((*setup)->place_lines,
              ElementsAre("servers 127.0.0.1:7601, 127.0.0.1:7602 from TERN_SERVERS",
                          "8 workers from --set, which wins over TERN_WORKERS",
                          "output_dir /tmp/x from TERN_OUTPUT_DIR"));
}

TEST(Environment, AFaultNamesItsVariable) {
  const SmallJobFile file;
  for (const auto& [name, value, key] :
       {std::tuple("TERN_WORKERS", "0", "workers.count: saw 0"),
        std::tuple("TERN_WORKERS", "many", "workers.count: saw many"),
        std::tuple("TERN_SERVERS", "node7", "servers[0].address: saw node7"),
        std::tuple("TERN_SERVERS", "127.0.0.1:1,", "servers[1].address: saw ")}) {
    const SetVariables variables(Variables{{name, value}});
    const auto setup = MakeSetup(file.path(), {});
    ASSERT_FALSE(setup.ok()) << name << "=" << value;
    EXPECT_EQ(setup.status().code(), Code::kBadJob);
    EXPECT_THAT(setup.status().message(), HasSubstr(std::string(name) + ": " + key));
  }
}

}  // namespace
}  // namespace tern::setup
