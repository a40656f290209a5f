// With some codecs, the servers store sums from round to round and write checkpoints of them. A
// checkpoint is named by the step at which its round ends. The servers compute this step without
// knowing how long the job is, so the step is wrong if the last round of the job has fewer steps.
// So no job may combine such a codec with an algorithm whose last round may have fewer steps.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/algorithm/algorithms.h"
#include "common/algorithm/facts.h"
#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "common/protocol/rounds/cells.h"
#include "setup/setup.h"
#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

TEST(LanesThatKeepSums, BelongToAlgorithmsWithoutAShortLastRound) {
  const SmallJobFile file;
  int num_keeping_sums = 0, num_with_short_last_round = 0;
  for (const std::string& name : algorithm::AlgorithmNames()) {
    for (const std::string& codec : codec::CodecNames()) {
      const auto setup =
          MakeSetup(file.path(), {"train.algorithm=" + name, "exchange.codec=" + codec,
                                  "train.optimizer.name=sgd", "exchange.scaler=per_worker"});
      if (!setup.ok()) continue;  // Validation refuses this combination.
      const algorithm::Facts facts = algorithm::FactsOf((*setup)->job);
      const std::vector<bool> shard_keeps_sums = protocol::ShardsThatKeepState((*setup)->plan);
      const bool keeps_sums = std::find(shard_keeps_sums.begin(), shard_keeps_sums.end(), true) !=
                              shard_keeps_sums.end();
      num_keeping_sums += keeps_sums && facts.has_rounds;
      num_with_short_last_round += facts.may_cut_period_short;
      EXPECT_FALSE(keeps_sums && facts.may_cut_period_short) << name << " with " << codec;
    }
  }
  EXPECT_GT(num_keeping_sums, 2);
  EXPECT_GT(num_with_short_last_round, 2);
}

}  // namespace
}  // namespace tern::setup
