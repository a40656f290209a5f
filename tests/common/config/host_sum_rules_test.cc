// Tests of the rules between exchange.host_sum and other keys.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The faults of SmallJob, which is a job of ssgd with ternary, with host_sum and these settings.
std::vector<std::string> FaultsOfHostSum(std::vector<std::string> settings) {
  settings.push_back("exchange.host_sum=true");
  return FaultsOf(SmallJob(), settings);
}

TEST(HostSum, IsForCodecsWhoseCodesCanBeAddedUp) {
  EXPECT_THAT(FaultsOfHostSum({}), IsEmpty());
  EXPECT_THAT(FaultsOfHostSum({"exchange.scaler=previous"}), IsEmpty());
  EXPECT_THAT(FaultsOfHostSum({"exchange.rotate=4096"}), IsEmpty());
  EXPECT_THAT(FaultsOfHostSum({"exchange.codec=fp32"}), IsEmpty());
  EXPECT_THAT(FaultsOfHostSum({"exchange.codec=qsgd_shared"}), IsEmpty());
  EXPECT_THAT(FaultsOfHostSum({"exchange.codec=qsgd_shared_ans"}), IsEmpty());
  for (const std::string codec :
       {"fp16", "bf16", "qsgd", "onebit", "topk", "threshold", "adaptive", "adacomp"}) {
    EXPECT_THAT(FaultsOfHostSum({"exchange.codec=" + codec}),
                ElementsAre(HasSubstr("exchange.codec: saw " + codec +
                                      " with host_sum: true; allowed: one of fp32, ternary, "
                                      "qsgd_shared, qsgd_shared_ans, whose codes can be added up; "
                                      "or set exchange.host_sum: false")))
        << codec;
  }
  EXPECT_THAT(FaultsOfHostSum({"exchange.rules=[{tensors: \"*.bias\", codec: fp16}]"}),
              ElementsAre(HasSubstr("exchange.rules[0].codec: saw fp16 with host_sum: true")));
}

TEST(HostSum, NeedsScalersThatWorkersShare) {
  EXPECT_THAT(FaultsOfHostSum({"exchange.scaler=per_worker"}),
              ElementsAre(HasSubstr("exchange.scaler: saw per_worker with host_sum: true and codec "
                                    "ternary; allowed: shared or previous")));
  EXPECT_THAT(FaultsOfHostSum({"exchange.scaler=per_worker", "exchange.codec=fp32"}), IsEmpty());
}

TEST(HostSum, NeedsRoundsOfAllWorkersAndParametersThatWorkersHold) {
  EXPECT_THAT(FaultsOfHostSum({"train.algorithm=asgd"}),
              ElementsAre(HasSubstr("exchange.host_sum: saw true with algorithm: asgd; allowed: "
                                    "false, because only pushes of one round can be added up")));
  EXPECT_THAT(FaultsOfHostSum({"train.parameters=central"}),
              ElementsAre(HasSubstr("exchange.host_sum: saw true with parameters: central")));
  EXPECT_THAT(FaultsOfHostSum({"train.ssgd.backup_workers=1"}),
              ElementsAre(HasSubstr("exchange.host_sum: saw true with 1 backup workers")));
  EXPECT_THAT(FaultsOfHostSum({"train.algorithm=odsgd"}), IsEmpty());
  EXPECT_THAT(FaultsOfHostSum({"train.algorithm=psgd", "exchange.codec=fp32"}), IsEmpty());
}

}  // namespace
}  // namespace tern::config
