// Tests of the rules between exchange.rotate and other keys.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The faults of SmallJob, which is a job of ssgd with ternary, with these settings.
std::vector<std::string> FaultsWith(std::vector<std::string> settings) {
  return FaultsOf(SmallJob(), settings);
}

TEST(Rotation, IsForCodecsWithRandomCodes) {
  EXPECT_THAT(FaultsWith({"exchange.rotate=0"}), IsEmpty());
  EXPECT_THAT(FaultsWith({"exchange.rotate=64"}), IsEmpty());
  EXPECT_THAT(FaultsWith({"exchange.rotate=65536"}), IsEmpty());
  EXPECT_THAT(FaultsWith({"exchange.rotate=4096", "exchange.codec=qsgd"}), IsEmpty());
  EXPECT_THAT(FaultsWith({"exchange.rotate=4096", "exchange.codec=qsgd_shared"}), IsEmpty());
  EXPECT_THAT(FaultsWith({"exchange.rotate=4096", "train.algorithm=pqasgd"}), IsEmpty());
  EXPECT_THAT(FaultsWith({"exchange.rotate=4096", "exchange.codec=fp32",
                          "exchange.rules=[{codec: ternary}]"}),
              IsEmpty());
  for (const std::string codec : {"fp32", "topk", "onebit"}) {
    EXPECT_THAT(FaultsWith({"exchange.rotate=4096", "exchange.codec=" + codec}),
                ElementsAre(HasSubstr(
                    "exchange.rotate: saw 4096; allowed: 0, because no tensor has a codec with "
                    "random codes: a ternary one, qsgd or qsgd_shared")))
        << codec;
    EXPECT_THAT(FaultsWith({"exchange.rotate=0", "exchange.codec=" + codec}), IsEmpty());
  }
}

TEST(Rotation, HasBlocksOfPowersOfTwo) {
  for (const std::string block : {"1", "32", "63", "100", "65535"})
    EXPECT_THAT(FaultsWith({"exchange.rotate=" + block}),
                ElementsAre(HasSubstr("exchange.rotate: saw " + block +
                                      "; allowed: 0, or a power of two from 64 to 65536")));
  for (const std::string block : {"131072", "-64", "4096.5", "big"})
    EXPECT_THAT(FaultsWith({"exchange.rotate=" + block}),
                ElementsAre(HasSubstr("exchange.rotate: saw " + block)));
}

TEST(Rotation, NeedsScalersOfWholeBlocks) {
  EXPECT_THAT(FaultsWith({"exchange.rotate=64", "exchange.scaler_elements=640"}), IsEmpty());
  EXPECT_THAT(
      FaultsWith({"exchange.rotate=4096", "exchange.scaler_elements=2048"}),
      ElementsAre(HasSubstr("exchange.scaler_elements: saw 2048; allowed: 0, or a multiple of "
                            "exchange.rotate (4096), because elements that are rotated together "
                            "have one scaler")));
}

TEST(Rotation, NeedsParametersThatWorkersHold) {
  for (const char* setting : {"train.parameters=central", "train.algorithm=asgd"})
    EXPECT_THAT(FaultsWith({"exchange.rotate=64", setting}),
                ElementsAre(HasSubstr(
                    "exchange.rotate: saw 64 with parameters: central; allowed: 0, because only "
                    "workers rotate back what they decode, and here servers decode; or set "
                    "train.parameters: localized, if the algorithm supports it")));
}

}  // namespace
}  // namespace tern::config
