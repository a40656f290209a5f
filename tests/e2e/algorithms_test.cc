// Trains with every algorithm of job.proto and every value of train.parameters that it supports, in
// real processes: three workers and two servers compute and exchange real gradients.
#include "common/algorithm/algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "setup/setup.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

struct AlgorithmCase {
  std::string name;
  std::vector<std::string> settings;
};
std::ostream& operator<<(std::ostream& out, const AlgorithmCase& c) { return out << c.name; }

std::vector<std::string> ArgumentsFor(const std::vector<std::string>& settings) {
  std::vector<std::string> arguments;
  for (const std::string& setting : settings) {
    arguments.push_back("--set");
    arguments.push_back(setting);
  }
  return arguments;
}

// One case for each algorithm and each value of train.parameters that it supports. The names come
// from the algorithms' own table, so a new algorithm is tested without a change here.
std::vector<AlgorithmCase> CasesOfEveryAlgorithm() {
  std::vector<AlgorithmCase> cases;
  for (const std::string& name : algorithm::AlgorithmNames()) {
    pb::Train train;
    train.set_algorithm(name);
    for (const int place : algorithm::TraitsOf(train)->holding()) {
      const std::string parameters_place = pb::Train::Parameters_Name(place);
      cases.push_back(
          {name + "_" + parameters_place,
           {"train.algorithm=" + name, "train.parameters=" + parameters_place,
            "exchange.codec=fp32", "exchange.scaler=per_worker", "train.optimizer.name=sgd"}});
    }
  }
  return cases;
}

std::vector<AlgorithmCase> CasesWithCodes() {
  const std::string ternary_codec = "exchange.codec=ternary",
                    own_scalers = "exchange.scaler=per_worker";
  return {
      {"odsgd", {"train.algorithm=odsgd", "train.odsgd.warmup_steps=4", ternary_codec}},
      {"odsgd_dcasgd_a",
       {"train.algorithm=odsgd", "train.odsgd.local.name=dcasgd_a", "train.odsgd.warmup_steps=4",
        ternary_codec}},
      {"ssgd_central",
       {"train.algorithm=ssgd", "train.parameters=central", ternary_codec, own_scalers}},
      {"ssgd_changes",
       {"train.algorithm=ssgd", "train.parameters=central", ternary_codec, own_scalers,
        "exchange.pull=changes", "exchange.pull_codec=onebit"}},
      {"ssgd_half",
       {"train.algorithm=ssgd", "train.parameters=central", ternary_codec, own_scalers,
        "exchange.pull_codec=bf16"}},
      {"asgd", {"train.algorithm=asgd", ternary_codec, own_scalers}},
      {"dcasgd_c", {"train.algorithm=dcasgd_c", ternary_codec, own_scalers}},
      {"dcasgd_a", {"train.algorithm=dcasgd_a", ternary_codec, own_scalers}},
      {"ssp", {"train.algorithm=ssp", ternary_codec, own_scalers}},
      {"softsync", {"train.algorithm=softsync", ternary_codec, own_scalers}},
      {"pqasgd", {"train.algorithm=pqasgd", ternary_codec, "exchange.clip=none"}},
      {"pqasgd_outer",
       {"train.algorithm=pqasgd", "train.pqasgd.outer.name=momentum",
        "train.pqasgd.outer.learning_rate=0.5", ternary_codec}},
      {"pqasgd_fragments",
       {"train.algorithm=pqasgd", "train.pqasgd.fragments=4", "train.pqasgd.outer.name=momentum",
        "train.pqasgd.outer.learning_rate=0.5", ternary_codec}},
      {"pqasgd_feedback",
       {"train.algorithm=pqasgd", "train.pqasgd.feedback=true", "exchange.codec=onebit"}},
  };
}

class Algorithms : public testing::TestWithParam<AlgorithmCase> {};

TEST_P(Algorithms, TrainToTheEnd) {
  TestJob job({.servers = 2, .workers = 3, .steps = 24, .batch_total = 12});
  job.StartAll(ArgumentsFor(GetParam().settings));
  job.ExpectAllEnd(0);
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["replicas_agree"], true);
  EXPECT_EQ(summary["test_samples"], 60);
  EXPECT_GE(summary["samples"], 24 * 12);
  EXPECT_EQ(summary["refusals"], 0);
  EXPECT_LE(summary["test_loss"], 2.3) << "has learned nothing: log(10) is 2.303";
  EXPECT_FALSE(job.Weights().empty());
}

std::vector<AlgorithmCase> CasesOfOtherKeys() {
  return {{"psgd_outer", {"train.algorithm=psgd", "train.psgd.outer.name=nesterov"}},
          {"pqasgd_fragments",
           {"train.algorithm=pqasgd", "train.pqasgd.fragments=2", "train.pqasgd.overlap=false"}},
          {"rsgd_random", {"train.algorithm=rsgd", "train.rsgd.order=random"}}};
}

std::string NameOf(const testing::TestParamInfo<AlgorithmCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Fp32, Algorithms, testing::ValuesIn(CasesOfEveryAlgorithm()), NameOf);
INSTANTIATE_TEST_SUITE_P(Codes, Algorithms, testing::ValuesIn(CasesWithCodes()), NameOf);
INSTANTIATE_TEST_SUITE_P(Keys, Algorithms, testing::ValuesIn(CasesOfOtherKeys()), NameOf);

TEST(Counted, LocalStepsAreThoseWithoutAnExchange) {
  TestJob job({.workers = 2, .steps = 24});
  job.StartAll(ArgumentsFor({"train.algorithm=psgd", "train.psgd.p=8", "exchange.codec=fp32"}));
  job.ExpectAllEnd(0);
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["gradients"], 48);
  EXPECT_EQ(summary["exchanges"], 6);
  EXPECT_EQ(summary["local_steps"], 42);
}

// What check and forecast take for a round's bytes is what a job receives.
TEST(Counted, TheDownLinkHasThePulledWeightsOfThePlan) {
  for (const char* codec : {"fp32", "ternary"}) {
    SCOPED_TRACE(codec);
    TestJob job({.workers = 2, .steps = 20});
    const std::vector<std::string> settings = {"train.algorithm=dcasgd_a",
                                               Cat("exchange.codec=", codec)};
    const auto setup = setup::MakeSetup(job.job_file(), settings);
    ASSERT_TRUE(setup.ok()) << setup.status().message();
    const protocol::RoundBytes bytes = protocol::CountRoundBytes((*setup)->plan);
    job.StartAll(ArgumentsFor(settings));
    job.ExpectAllEnd(0);
    const auto planned = static_cast<double>(bytes.sum + bytes.pulled) * 2 * 20;
    EXPECT_NEAR(job.Output("server.0.json")["down_bytes"].get<double>() / planned, 1, 0.15);
  }
}

TEST(Counted, EveryPushHasAStalenessWithinTheBoundOfSsp) {
  TestJob job({.workers = 3, .steps = 20, .batch_total = 12});
  job.StartAll(
      ArgumentsFor({"train.algorithm=ssp", "train.ssp.staleness=1", "exchange.codec=fp32"}));
  job.ExpectAllEnd(0);
  const nlohmann::json summary = job.Output("server.0.json");
  uint64_t num_pushes = 0;
  for (const auto& pushes_of_staleness : summary["staleness"])
    num_pushes += pushes_of_staleness.get<uint64_t>();
  EXPECT_EQ(num_pushes, summary["exchanges"]);
  EXPECT_THAT(job.Log("worker", 0),
              HasSubstr("algorithm ssp (staleness: 1 push_weight: one), optimizer sgd"));
  EXPECT_THAT(num_pushes, AllOf(Ge(60u), Le(66u)));
  // Between a worker's pull and its push, each of the two other workers makes at most 4 pushes: the
  // staleness is at most 8.
  uint64_t num_too_stale_pushes = 0;
  for (size_t i = 9; i < summary["staleness"].size(); ++i)
    num_too_stale_pushes += summary["staleness"][i].get<uint64_t>();
  EXPECT_EQ(num_too_stale_pushes, 0u);
}

// Worker 0 is slow, so worker 1 does most of the steps. The job's step is their mean, also where
// the evaluation says after which step it was, and in a job that goes on.
TEST(Counted, WithoutRoundsTheStepIsTheMeanOfTheWorkers) {
  TestJob job({.workers = 2, .steps = 24, .yaml = "checkpoints: {every_steps: 8}\n"});
  for (const uint64_t steps : {24u, 60u}) {
    SCOPED_TRACE(steps);
    std::vector<std::string> arguments =
        ArgumentsFor({"train.algorithm=asgd", "exchange.codec=fp32", Cat("train.steps=", steps)});
    arguments.insert(arguments.begin(),
                     {"run", job.job_file(), "--fail", "worker.0:thread.compute=delay:0.03"});
    TestProgram& run = job.StartTern(arguments);
    ASSERT_EQ(run.Wait(), 0) << run.err();
    EXPECT_EQ(job.Output("summary.json")["rounds"], steps);
    const uint64_t slow = job.Output("worker.0.json")["job_step"],
                   fast = job.Output("worker.1.json")["job_step"];
    EXPECT_LT(slow, steps);
    EXPECT_GT(fast, steps);
    EXPECT_GE(slow + fast, 2 * steps);
    EXPECT_THAT(ReadFile(job.output_dir() + "/curve.csv"), HasSubstr(Cat("\n", steps, ",")));
    EXPECT_THAT(job.Log("worker", 0), HasSubstr(Cat("after step ", steps, ": test accuracy")));
  }
}

// Each worker owns a third of 241 images, so in the last step of an epoch some have no samples.
TEST(EndOfAnEpoch, NeverBlocksARound) {
  for (const char* epoch_end : {"wrap", "drop_last", "pad", "leave"}) {
    SCOPED_TRACE(epoch_end);
    TestJob job({.workers = 3, .steps = 45, .batch_total = 12, .train_images = 241});
    job.StartAll(
        ArgumentsFor({"data.partition=by_sample", std::string("data.epoch_end=") + epoch_end}));
    job.ExpectAllEnd(0);
    const nlohmann::json summary = job.Output("server.0.json");
    EXPECT_EQ(summary["replicas_agree"], true);
    EXPECT_EQ(summary["rounds"], 45);
  }
}

}  // namespace
}  // namespace tern::e2e
