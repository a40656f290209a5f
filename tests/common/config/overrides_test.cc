// Tests of overrides: the command-line option --set KEY=VALUE, which changes a key of the job.
#include <gmock/gmock.h>

#include <string>

#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Override, SetsValuesMapsAndLists) {
  const auto job =
      Parse(SmallJob(), {"train.batch_total=128", "servers.0.address=127.0.0.2:7501",
                         "servers[0].data_sockets=2", "servers[0].data_ports=[7502, 7503]",
                         "exchange.rules=[{tensors: \"*.bias\", codec: fp32}]",
                         "exchange.rules[0].tensors=*.weight", "train.optimizer={name: sgd}"});
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(job->train().batch_total(), 128u);
  EXPECT_EQ(job->servers(0).address(), "127.0.0.2:7501");
  EXPECT_EQ(job->servers(0).data_ports(1), 7503u);
  EXPECT_EQ(job->exchange().rules(0).tensors(), "*.weight");
  EXPECT_EQ(job->exchange().rules(0).codec(), "fp32");
  EXPECT_EQ(job->train().optimizer().name(), "sgd");
}

TEST(Override, AcceptsTextsWithoutQuotes) {
  const auto job =
      Parse(SmallJob(), {"servers.0.address=[::1]:7500", "output_dir=a=b: [c", "name=\"q\""});
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(job->servers(0).address(), "[::1]:7500");
  EXPECT_EQ(job->output_dir(), "a=b: [c");
  EXPECT_EQ(job->name(), "q");
}

TEST(Override, NullRemovesAKey) {
  const auto job = Parse(SmallJob(), {"train.steps=null", "train.epochs=1.5"});
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_FALSE(job->train().has_steps());
  EXPECT_EQ(job->train().epochs(), 1.5);
  EXPECT_THAT(
      FaultsOf(SmallJob(), {"data.dir=null"}),
      ElementsAre(StartsWith("--set data.dir=null: data.dir: saw nothing; allowed: a text")));
}

TEST(Override, ReplacesWholeMaps) {
  EXPECT_THAT(FaultsOf(SmallJob(), {"train={steps: 5}"}),
              ElementsAre(StartsWith("--set train={steps: 5}: train.batch_total: saw nothing")));
}

TEST(Override, TheLastOverrideOfAKeyWins) {
  const auto job = Parse(SmallJob(), {"train.steps=5", "train.steps=6"});
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(job->train().steps(), 6u);
}

TEST(Override, AutoStandsForOneServer) {
  const std::string small_job =
      SmallJobWith("servers:\n  - address: 127.0.0.1:7500\n", "servers: auto\n");
  for (const auto& job : {Parse(small_job), Parse(SmallJob(), {"servers=auto"})}) {
    ASSERT_TRUE(job.ok()) << job.status().message();
    ASSERT_EQ(job->servers_size(), 1);
    EXPECT_EQ(job->servers(0).address(), "127.0.0.1:7500");
  }
  EXPECT_EQ(Parse(small_job, {"servers.0.address=127.0.0.1:9"})->servers(0).address(),
            "127.0.0.1:9");
  EXPECT_THAT(
      FaultsOf(SmallJob(), {"servers=many"}),
      ElementsAre(StartsWith("--set servers=many: servers: saw many; allowed: auto, or a list")));
  EXPECT_THAT(FaultsOf(SmallJob(), {"workers.overrides=auto"}),
              ElementsAre(HasSubstr("workers.overrides: saw auto; allowed: a list")));
}

TEST(Override, IsQuotedInItsFaults) {
  EXPECT_THAT(
      FaultsOf(SmallJob(),
               {"train.stesp=5", "train.batch_total=0", "workers.count=x", "steps",
                "servers.1.address=a:1", "servers.0=a:1", "name.x=5", "seed=[", "=5", ""}),
      ElementsAre(
          AllOf(StartsWith("--set train.stesp=5: train.stesp: saw an unknown key"),
                HasSubstr("did you mean train.steps?")),
          "--set train.batch_total=0: train.batch_total: saw 0; allowed: a whole number, at least "
          "1",
          StartsWith("--set workers.count=x: workers.count: saw x; allowed: a whole number"),
          "--set steps: saw no '='; allowed: KEY=VALUE",
          "--set servers.1.address=a:1: servers: saw the item 1; allowed: items 0 to 0",
          StartsWith("--set servers.0=a:1: servers[0]: saw the key servers.0; allowed: one key of "
                     "the item"),
          StartsWith("--set name.x=5: name: saw the key name.x; allowed: no keys below"),
          StartsWith("--set seed=[: seed: saw invalid YAML"),
          StartsWith("--set =5: saw an unknown key"), StartsWith("--set : saw no '='")));
}

TEST(Override, FaultsFollowThoseOfTheFile) {
  EXPECT_THAT(
      FaultsOf(SmallJobWith("count: 2", "count: 0"), {"train.steps=0"}),
      ElementsAre(StartsWith("job.yaml:4:10: workers.count"), StartsWith("--set train.steps=0")));
  EXPECT_THAT(
      FaultsOf(SmallJob(), {"workers.count=3"}),
      ElementsAre(StartsWith("job.yaml:10:16: train.batch_total: saw 64; allowed: a multiple of "
                             "workers.count (3)")));
}

}  // namespace
}  // namespace tern::config
