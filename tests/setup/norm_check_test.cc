// Tests of the check that batch norms have more than one value a channel.
#include "setup/norm_check.h"

#include <gmock/gmock.h>

#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using ::testing::HasSubstr;

// The status of a job of two workers, whose net has a batch norm of many pixels and one of 1 x 1.
Status StatusOf(const std::vector<std::string>& overrides) {
  const SmallJobFile file;
  std::vector<std::string> all = {
      "model={net: {layers: [{name: conv, conv: {outputs: 4, kernel: 5}}, "
      "{name: wide, batch_norm: {}}, {name: pool, avg_pool: {global: true}}, "
      "{name: narrow, batch_norm: {}}, {name: scores, dense: {outputs: 10}}, "
      "{name: loss, softmax_loss: {}}]}}"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return MakeSetup(file.path(), all).status();
}

TEST(CheckBatchNorms, RefusesOneValueAChannel) {
  const Status status = StatusOf({"train.batch_total=2"});
  EXPECT_EQ(status.code(), Code::kBadJob);
  EXPECT_THAT(status.message(),
              HasSubstr("train.batch_total: saw 2, one sample for each worker, and batch norm "
                        "\"narrow\" of 1 x 1 pixels, which would have the same output for every "
                        "image; allowed: at least 4, or the batch norm in train.freeze"));
}

TEST(CheckBatchNorms, TakesTwoSamplesAWorker) {
  const Status status = StatusOf({"train.batch_total=4"});
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(CheckBatchNorms, TakesAFrozenNormAndOneOfManyPixels) {
  const Status status = StatusOf({"train.batch_total=2", "train.freeze=['narrow.*']"});
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(CheckBatchNorms, RefusesANormWithOneFrozenParameter) {
  EXPECT_EQ(StatusOf({"train.batch_total=2", "train.freeze=[narrow.bias]"}).code(), Code::kBadJob);
}

TEST(CheckBatchNorms, TakesJobsThatComputeNothing) {
  const Status status = StatusOf({"train.batch_total=2", "train.compute=wait"});
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace tern::setup
