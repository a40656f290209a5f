// Every algorithm of job.proto with every value of train.parameters that it supports, in real
// processes: three workers, two servers, real gradients.
#include "common/algorithm/algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

struct Case {
  std::string name;
  std::vector<std::string> settings;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

std::vector<std::string> Words(const std::vector<std::string>& settings) {
  std::vector<std::string> words;
  for (const std::string& setting : settings) {
    words.push_back("--set");
    words.push_back(setting);
  }
  return words;
}

// One case per section of job.proto and value of train.parameters, so that a new algorithm is
// tested without a change here.
std::vector<Case> EveryAlgorithm() {
  std::vector<Case> cases;
  for (const std::string& name : algorithm::AlgorithmNames()) {
    pb::Train train;
    train.set_algorithm(name);
    for (const int holding : algorithm::TraitsOf(train)->holding()) {
      const std::string way = pb::Train::Parameters_Name(holding);
      cases.push_back({name + "_" + way,
                       {"train.algorithm=" + name, "train.parameters=" + way, "exchange.codec=fp32",
                        "exchange.scaler=per_worker", "train.optimizer.name=sgd"}});
    }
  }
  return cases;
}

std::vector<Case> WithTernaryCodes() {
  const std::string codec = "exchange.codec=ternary", own = "exchange.scaler=per_worker";
  return {
      {"odsgd", {"train.algorithm=odsgd", "train.odsgd.warmup_steps=4", codec}},
      {"odsgd_dcasgd_a",
       {"train.algorithm=odsgd", "train.odsgd.local.name=dcasgd_a", "train.odsgd.warmup_steps=4",
        codec}},
      {"ssgd_central", {"train.algorithm=ssgd", "train.parameters=central", codec, own}},
      {"ssgd_changes",
       {"train.algorithm=ssgd", "train.parameters=central", codec, own, "exchange.pull=changes",
        "exchange.pull_codec=onebit"}},
      {"ssgd_half",
       {"train.algorithm=ssgd", "train.parameters=central", codec, own,
        "exchange.pull_codec=bf16"}},
      {"asgd", {"train.algorithm=asgd", codec, own}},
      {"dcasgd_c", {"train.algorithm=dcasgd_c", codec, own}},
      {"dcasgd_a", {"train.algorithm=dcasgd_a", codec, own}},
      {"ssp", {"train.algorithm=ssp", codec, own}},
      {"softsync", {"train.algorithm=softsync", codec, own}},
      {"pqasgd", {"train.algorithm=pqasgd", codec, "exchange.clip=none"}},
  };
}

class Algorithms : public testing::TestWithParam<Case> {};

TEST_P(Algorithms, TrainToTheEnd) {
  TestJob job({.servers = 2, .workers = 3, .steps = 24, .batch_total = 12});
  job.StartAll(Words(GetParam().settings));
  job.ExpectAllEnd(0);
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["replicas_agree"], true);
  EXPECT_EQ(summary["test_samples"], 60);
  EXPECT_GE(summary["samples"], 24 * 12);
  EXPECT_EQ(summary["refusals"], 0);
  EXPECT_LE(summary["test_loss"], 2.3) << "has learned nothing: log(10) is 2.303";
  EXPECT_FALSE(job.Weights().empty());
}

std::string NameOf(const testing::TestParamInfo<Case>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Fp32, Algorithms, testing::ValuesIn(EveryAlgorithm()), NameOf);
INSTANTIATE_TEST_SUITE_P(Ternary, Algorithms, testing::ValuesIn(WithTernaryCodes()), NameOf);

TEST(Counted, LocalStepsAreThoseWithoutAnExchange) {
  TestJob job({.workers = 2, .steps = 24});
  job.StartAll(Words({"train.algorithm=psgd", "train.psgd.p=8", "exchange.codec=fp32"}));
  job.ExpectAllEnd(0);
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["gradients"], 48);
  EXPECT_EQ(summary["exchanges"], 6);
  EXPECT_EQ(summary["local_steps"], 42);
}

TEST(Counted, EveryPushHasAStalenessWithinTheBoundOfSsp) {
  TestJob job({.workers = 3, .steps = 20, .batch_total = 12});
  job.StartAll(Words({"train.algorithm=ssp", "train.ssp.staleness=1", "exchange.codec=fp32"}));
  job.ExpectAllEnd(0);
  const nlohmann::json summary = job.Output("server.0.json");
  uint64_t pushes = 0;
  for (const auto& of_staleness : summary["staleness"]) pushes += of_staleness.get<uint64_t>();
  EXPECT_EQ(pushes, summary["exchanges"]);
  EXPECT_THAT(pushes, AllOf(Ge(60u), Le(66u)));
  // Between a worker's pull and its push, each of the two other workers makes at most 4 pushes.
  uint64_t above = 0;
  for (size_t i = 9; i < summary["staleness"].size(); ++i)
    above += summary["staleness"][i].get<uint64_t>();
  EXPECT_EQ(above, 0u);
}

// Each worker owns a third of 241 images, so in the last step of an epoch some have no samples.
TEST(EndOfAnEpoch, NeverBlocksARound) {
  for (const char* way : {"wrap", "drop_last", "pad", "leave"}) {
    SCOPED_TRACE(way);
    TestJob job({.workers = 3, .steps = 45, .batch_total = 12, .train_images = 241});
    job.StartAll(Words({"data.partition=by_sample", std::string("data.epoch_end=") + way}));
    job.ExpectAllEnd(0);
    const nlohmann::json summary = job.Output("server.0.json");
    EXPECT_EQ(summary["replicas_agree"], true);
    EXPECT_EQ(summary["rounds"], 45);
  }
}

}  // namespace
}  // namespace tern::e2e
