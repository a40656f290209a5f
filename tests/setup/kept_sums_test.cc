// A server's checkpoints are named after the step that a round of the job ends in, which a lane
// works out without the length of the job (server/lane_checkpoints.cc).
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

TEST(LanesThatKeepSums, AreOfAlgorithmsWhoseRoundsTheEndOfAJobDoesNotCutShort) {
  const SmallJobFile file;
  int keep = 0, cut_short = 0;
  for (const std::string& name : algorithm::AlgorithmNames()) {
    for (const std::string& codec : codec::CodecNames()) {
      const auto setup =
          MakeSetup(file.path(), {"train.algorithm=" + name, "exchange.codec=" + codec,
                                  "train.optimizer.name=sgd", "exchange.scaler=per_worker"});
      if (!setup.ok())
        continue;  // refused: tests/common/config/train_rules_test.cc has the sentences
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
