// The best evaluation (evaluation.keep_best), and jobs that end before their last step
// (train.stop_when), in real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/tensors/safetensors.h"
#include "tests/e2e/checkpoint_job.h"

namespace tern::e2e {
namespace {

using testing::HasSubstr;

// No evaluation is better than the first.
const std::vector<std::string> kNeverBetter = {
    "train.schedule.learning_rate=1e-30", "evaluation.every_steps=4",
    "train.stop_when.no_better_evaluations=3", "evaluation.keep_best=true"};

std::vector<std::string> Plus(std::vector<std::string> settings,
                              const std::vector<std::string>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

std::string BestStepIn(const TestJob& job) {
  const auto file = tensors::ReadSafetensors(job.output_dir() + "/weights_best.safetensors");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? file->metadata.at("step") : "";
}

TEST(StopWhen, AllWorkersEndAfterTheSameRound) {
  struct Case {
    std::vector<std::string> settings;
    uint64_t last_step;
  };
  // The evaluations after 8, 12 and 16 steps are not better, and the next round is the last.
  for (const Case& c : {Case{{}, 17},
                        {{"train.parameters=central", "exchange.scaler=per_worker"}, 17},
                        {{"train.algorithm=odsgd", "train.odsgd.warmup_steps=2"}, 17},
                        {{"train.algorithm=psgd", "train.psgd.p=2"}, 18},
                        {{"train.algorithm=rsgd", "train.rsgd.p=2"}, 17},
                        {{"train.algorithm=pqasgd", "train.pqasgd.fragments=2"}, 20}}) {
    SCOPED_TRACE(testing::PrintToString(c.settings));
    TestJob job({.workers = 3, .steps = 100'000, .batch_total = 9});
    job.StartAll(SetArguments(Plus(kNeverBetter, c.settings)));
    job.ExpectAllEnd(0);
    const nlohmann::json summary = job.Output("server.0.json");
    EXPECT_EQ(summary["code"], 0);
    EXPECT_EQ(summary["rounds"], c.last_step);
    EXPECT_EQ(summary["stopped_early"], true);
    EXPECT_EQ(summary["best_step"], 4);
    EXPECT_EQ(BestStepIn(job), "4");
    for (uint32_t rank = 0; rank < 3; ++rank)
      EXPECT_THAT(job.Log("worker", rank), HasSubstr("train.stop_when: 3 evaluations were not "));
  }
}

TEST(StopWhen, TheConsoleSaysSo) {
  TestJob job({.steps = 100'000});
  std::vector<std::string> arguments = SetArguments(kNeverBetter);
  arguments.insert(arguments.begin(), {"run", job.job_file()});
  TestProgram& tern = job.StartTern(arguments);
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), HasSubstr("after step 4; train.stop_when ended the job"));
}

// A job that was killed stops where it would have; started again after its end, it ends at once.
TEST(StopWhen, AResumeContinuesTheCount) {
  for (const std::string holding : {"localized", "central"}) {
    SCOPED_TRACE(holding);
    const std::vector<std::string> settings =
        Plus({"train.schedule.learning_rate=1e-30", "evaluation.every_steps=8",
              "train.stop_when.no_better_evaluations=40", "evaluation.keep_best=true"},
             {"train.parameters=" + holding, "exchange.scaler=per_worker"});
    JobOptions options = OptionsFor("", 100'000);
    TestJob job(options);
    RunAndKillAt(job, options, 20, SetArguments(settings));
    ASSERT_LT(NewestStepOf(job, "worker.0"), 320u);
    job.StartAll(SetArguments(settings));
    job.ExpectAllEnd(0);
    EXPECT_EQ(job.Output("server.0.json")["rounds"], 329);  // 41 evaluations, and a round
    EXPECT_GE(job.Output("server.0.json")["from_step"], 20);
    EXPECT_EQ(BestStepIn(job), "8");
    const std::string weights = job.Weights();
    if (holding == "central") continue;
    job.StartAll(SetArguments(settings));
    job.ExpectAllEnd(0);
    EXPECT_EQ(job.Output("server.0.json")["rounds"], 329);
    EXPECT_TRUE(job.Weights() == weights);
    // With a higher limit it goes on to its next evaluation.
    job.StartAll(SetArguments(Plus(settings, {"train.stop_when.no_better_evaluations=41"})));
    job.ExpectAllEnd(0);
    EXPECT_EQ(job.Output("server.0.json")["rounds"], 337);
  }
}

TEST(StopWhen, AWorkerThatReturnsStopsWithTheOthers) {
  JobOptions options = {.steps = 100'000};
  options.yaml = "faults: {on_worker_loss: wait}\n";
  const std::vector<std::string> arguments =
      SetArguments({"train.schedule.learning_rate=1e-30", "evaluation.every_steps=20",
                    "train.stop_when.no_better_evaluations=20", "evaluation.keep_best=true"});
  TestJob job(options);
  job.StartAll(arguments);
  ASSERT_TRUE(job.WaitForRound(60));
  for (const uint32_t rank : {1, 0}) {
    TestProgram& lost = job.worker(rank);
    lost.Signal(SIGKILL);
    lost.Wait();
    job.StartWorker(rank, arguments);
    ASSERT_TRUE(job.WaitForLog("worker", rank, "installed the state after round"));
  }
  job.ExpectAllEnd(0);
  EXPECT_EQ(job.Output("server.0.json")["rounds"], 421);
  EXPECT_EQ(BestStepIn(job), "20");
}

TEST(KeepBest, KeepsTheBestOfTheEvaluations) {
  // From step 20 on, the steps are so large that evaluations get worse.
  JobOptions options = {.steps = 60};
  options.yaml = "evaluation: {every_steps: 3, keep_best: true, confusion: true}\n";
  TestJob job(options);
  job.StartAll(SetArguments({"train.schedule.name=multistep", "train.schedule.learning_rate=0.1",
                             "train.schedule.milestones=[20]", "train.schedule.gamma=50",
                             "train.clip_norm=1", "train.optimizer.name=sgd"}));
  job.ExpectAllEnd(0);
  unsigned best_step = 0, num_worse = 0;
  double best_accuracy = 0, best_loss = 0;
  std::istringstream curve(ReadFile(job.output_dir() + "/curve.csv"));
  for (std::string line; std::getline(curve, line);) {
    unsigned step = 0;
    double training_loss = 0, loss = 0, accuracy = 0;
    if (std::sscanf(line.c_str(), "%u,%lf,%lf,%lf", &step, &training_loss, &loss, &accuracy) != 4)
      continue;
    if (best_step != 0 &&
        (accuracy < best_accuracy || (accuracy == best_accuracy && loss >= best_loss))) {
      ++num_worse;
      continue;
    }
    best_step = step;
    best_accuracy = accuracy;
    best_loss = loss;
  }
  EXPECT_GT(num_worse, 0u);
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["best_step"], best_step);
  EXPECT_EQ(std::to_string(best_step), BestStepIn(job));
  EXPECT_NEAR(summary["best_accuracy"].get<double>(), best_accuracy, 1e-8);
  // The file's weights have the accuracy that the summary has.
  TestProgram& evaluation = job.Start(
      "evaluate", TestJob::BinaryPath("tern_worker"),
      {"--job", job.job_file(), "--evaluate", job.output_dir() + "/weights_best.safetensors"});
  ASSERT_EQ(evaluation.Wait(), 0) << evaluation.err();
  char accuracy[32];
  std::snprintf(accuracy, sizeof accuracy, "top-1 %.4f,", summary["best_accuracy"].get<double>());
  EXPECT_THAT(evaluation.out(), HasSubstr(accuracy));
}

// The summary of the earlier run stays, so the best weights beside it must be that run's.
TEST(KeepBest, AFailedRunLeavesTheBestWeightsOfAnEarlierOne) {
  JobOptions options = {.steps = 12};
  options.yaml = "evaluation: {every_steps: 4, keep_best: true}\n";
  TestJob job(options);
  job.StartAll();
  job.ExpectAllEnd(0);
  const std::string best_weights = job.OutputBytes("weights_best.safetensors");
  const std::string summary = job.OutputBytes("server.0.json");
  ASSERT_FALSE(best_weights.empty());
  EXPECT_EQ(job.OutputBytes("weights_best.running.safetensors"), "");

  const std::vector<std::string> settings = SetArguments({"train.schedule.learning_rate=1e-30"});
  job.StartServer(0, settings);
  job.StartWorker(0, settings);
  job.StartWorker(1, Plus(settings, {"--fail", "thread.compute=die@step:10"}));
  EXPECT_EQ(job.server(0).Wait(), 75);
  EXPECT_EQ(job.worker(0).Wait(), 75);
  EXPECT_TRUE(job.OutputBytes("weights_best.safetensors") == best_weights);
  EXPECT_EQ(job.OutputBytes("server.0.json"), summary);
  EXPECT_NE(job.OutputBytes("weights_best.running.safetensors"), "");

  // One that ends well replaces them, and what the failed one left.
  job.StartAll(settings);
  job.ExpectAllEnd(0);
  EXPECT_FALSE(job.OutputBytes("weights_best.safetensors") == best_weights);
  EXPECT_EQ(Cat(job.Output("server.0.json")["best_step"].get<uint64_t>()), BestStepIn(job));
  EXPECT_EQ(job.OutputBytes("weights_best.running.safetensors"), "");
}

// The run that a resumed one continues had the best evaluation, and was over or was killed.
TEST(KeepBest, AResumedRunStillHasTheBestWeights) {
  JobOptions options = OptionsFor("evaluation: {every_steps: 4, keep_best: true}\n", 100'000);
  const std::vector<std::string> settings = SetArguments({"train.schedule.learning_rate=1e-30"});
  TestJob job(options);
  RunAndKillAt(job, options, 10, settings);
  EXPECT_EQ(job.OutputBytes("weights_best.safetensors"), "");
  for (const std::string run : {"of the killed run", "of the run that is over"}) {
    SCOPED_TRACE(run);
    const uint64_t step = NewestStepOf(job, "worker.0");
    ASSERT_GE(step, 10u);
    job.StartAll(Plus(settings, SetArguments({Cat("train.steps=", step + 20)})));
    job.ExpectAllEnd(0);
    EXPECT_GE(job.Output("server.0.json")["from_step"], 10);
    EXPECT_EQ(job.Output("server.0.json")["best_step"], 4);
    EXPECT_EQ(BestStepIn(job), "4");
    EXPECT_EQ(job.Log("worker", 0).find("the best weights, of step"), std::string::npos);
  }
}

TEST(StopWhen, IsRefusedWhereAJobEvaluatesOnlyAtItsEnd) {
  TestJob job;
  const auto error_of = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> arguments = SetArguments(settings);
    arguments.insert(arguments.begin(), {"check", job.job_file()});
    TestProgram& check = job.StartTern(arguments);
    EXPECT_EQ(check.Wait(), 78);
    return check.err();
  };
  EXPECT_THAT(
      error_of({"train.stop_when.no_better_evaluations=2"}),
      HasSubstr("train.stop_when.no_better_evaluations: saw 2 with evaluation.every_steps: 0"));
  EXPECT_THAT(error_of({"train.stop_when.no_better_evaluations=2", "train.algorithm=asgd",
                        "evaluation.every_steps=5"}),
              HasSubstr("an algorithm without rounds evaluates only at the job's end"));
}

}  // namespace
}  // namespace tern::e2e
