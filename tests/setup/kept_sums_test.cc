// The name of a server's checkpoint has the step in which a round ends. A lane computes that step
// without knowing the length of the job (server/lane_checkpoints.cc).
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
  int keep = 0, cut_short = 0;
  for (const std::string& name : algorithm::AlgorithmNames()) {
    for (const std::string& codec : codec::CodecNames()) {
      const auto setup =
          MakeSetup(file.path(), {"train.algorithm=" + name, "exchange.codec=" + codec,
                                  "train.optimizer.name=sgd", "exchange.scaler=per_worker"});
      if (!setup.ok())
        continue;  // refused by a rule that tests/common/config/train_rules_test.cc covers
      const algorithm::Facts facts = algorithm::FactsOf((*setup)->job);
      const std::vector<bool> shards = protocol::ShardsThatKeep((*setup)->plan);
      const bool keeps = std::find(shards.begin(), shards.end(), true) != shards.end();
      keep += keeps && facts.rounds;
      cut_short += facts.cut_short;
      EXPECT_FALSE(keeps && facts.cut_short) << name << " with " << codec;
    }
  }
  EXPECT_GT(keep, 2);
  EXPECT_GT(cut_short, 2);
}

}  // namespace
}  // namespace tern::setup
