// tern find_lr: the learning-rate range test, and trials around its suggestion. Each runs the job
// for some steps as `tern run` does, in a folder of its own: the range test with a rate that grows
// exponentially, a trial with the job's schedule. The losses are those of the run's curve.csv.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "client/train/curve.h"
#include "client/train/plot.h"
#include "common/algorithm/facts.h"
#include "common/algorithm/rules.h"
#include "common/base/atomic_file.h"
#include "common/base/folder_lock.h"
#include "common/base/output_file.h"
#include "common/base/signals.h"
#include "common/base/storage.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "setup/setup.h"
#include "tools/commands.h"
#include "tools/find_lr/range_test.h"
#include "tools/find_lr/trials.h"
#include "tools/run/run_to_end.h"
#include "tools/sweep/results.h"
#include "tools/table.h"

namespace tern::tools {
namespace {

constexpr uint32_t kMaxSteps = 100'000;
constexpr double kMaxRate = 1e6;
constexpr uint32_t kMinTrialSteps = 10;
constexpr uint64_t kTestImages = 100;  // A run ends with an evaluation, which is not used here.
constexpr uint64_t kMaxCsvBytes = 64 << 20;
constexpr double kRowsADecade = 2;  // of the table on the screen

// What every training of the command has in common.
struct TestJob {
  pb::Job job;               // The user's, whose output_dir is the command's own folder.
  double rate_factor = 1;    // The user's rate is train.schedule.learning_rate times this.
  uint64_t trial_steps = 0;  // 0: no trials
};

// A training of the command: how it ended, and its losses.
struct TestRun {
  Status status;
  std::vector<client::CurveRow> rows;
};

Result<RateRange> ReadRange(const Arguments& arguments) {
  RateRange range;
  const Result<uint32_t> steps = arguments.NumberValue("steps", kMaxSteps);
  if (!steps.ok()) return steps.status();
  if (*steps < kMinLosses) {
    return Status(Code::kUsage, Cat("--steps: saw ", *steps, "; allowed: a whole number, ",
                                    kMinLosses, " to ", kMaxSteps));
  }
  range.steps = *steps;
  for (const auto& [flag, rate] : {std::pair("from", &range.from), std::pair("to", &range.to)}) {
    const Result<double> value = arguments.PositiveValue(flag, kMaxRate);
    if (!value.ok()) return value.status();
    *rate = *value;
  }
  if (range.from < range.to) return range;
  return Status(Code::kUsage, Cat("saw --from ", range.from, " and --to ", range.to,
                                  "; --from must be below --to"));
}

// The rates of the range test, with the job's factors for single tensors.
pb::Schedule RangeTestSchedule(const RateRange& range, const pb::Schedule& of_job) {
  pb::Schedule schedule;
  *schedule.mutable_rules() = of_job.rules();
  schedule.set_name("exponential");
  schedule.set_learning_rate(range.from);
  schedule.set_gamma(range.to / range.from);
  schedule.set_step_every(range.steps - 1);
  return schedule;
}

// The job's schedule with another rate and without a warm-up, which may be longer than a trial.
pb::Schedule TrialSchedule(pb::Schedule schedule, double rate) {
  schedule.set_learning_rate(rate);
  schedule.clear_linear_scaling_batch();
  schedule.clear_warmup_steps();
  return schedule;
}

// Clears the keys that say how long the job trains and what else it does.
void MakeTestJob(pb::Job* job) {
  job->set_output_dir(job->output_dir() + "/find_lr");
  pb::Train* train = job->mutable_train();
  train->clear_epochs();
  for (pb::Schedule::Rule& rule : *train->mutable_schedule()->mutable_rules())
    rule.clear_until_step();
  train->clear_batch_growth();
  algorithm::DropWarmup(job);
  train->clear_stop_when();
  pb::Evaluation* evaluation = job->mutable_evaluation();
  evaluation->clear_every_steps();
  evaluation->clear_keep_best();
  evaluation->clear_confusion();
  const uint64_t limit = job->data().test_limit();
  job->mutable_data()->set_test_limit(limit == 0 ? kTestImages : std::min(limit, kTestImages));
  job->mutable_faults()->set_compare_every_steps(1);  // Each comparison gives a row of curve.csv.
  job->clear_checkpoints();
  job->clear_metrics();
}

Result<TestJob> ReadJob(const Arguments& arguments) {
  const Result<uint32_t> trial_steps = arguments.NumberValue("trial_steps", kMaxSteps);
  if (!trial_steps.ok()) return trial_steps.status();
  if (*trial_steps != 0 && *trial_steps < kMinTrialSteps) {
    return Status(Code::kUsage, Cat("--trial_steps: saw ", *trial_steps, "; allowed: 0, or ",
                                    kMinTrialSteps, " to ", kMaxSteps));
  }
  const std::string& job_file = arguments.positional().front();
  auto setup = setup::MakeSetup(job_file, arguments.AllValues("set"));
  if (!setup.ok()) return setup.status();
  TestJob test = {.job = (*setup)->job, .trial_steps = *trial_steps};
  const pb::Train& train = test.job.train();
  if (!(*setup)->plan.has_rounds) {
    return Status(Code::kBadJob,
                  Cat(job_file, ": train.algorithm: saw ", train.algorithm(),
                      ", which has no rounds, so a step has no loss that all workers share; the "
                      "range test needs an algorithm with rounds (docs/JOBS.md lists them); choose "
                      "one with --set train.algorithm=NAME"));
  }
  if (train.compute() != pb::Train::net) {
    return Status(Code::kBadJob,
                  Cat(job_file, ": train.compute: saw ", pb::Train::Compute_Name(train.compute()),
                      "; the range test needs net, whose loss Tern itself computes"));
  }
  const uint32_t scaling_batch = train.schedule().linear_scaling_batch();
  if (scaling_batch != 0) {
    test.rate_factor =
        static_cast<double>(train.batch_total()) / static_cast<double>(scaling_batch);
  }
  MakeTestJob(&test.job);
  return test;
}

// kUsage if the range test has too few losses, because workers share one only where they exchange.
Status CheckLosses(const pb::Job& job, const RateRange& range) {
  const uint64_t period = algorithm::FactsOf(job).period;
  if (range.steps / period >= kMinLosses) return Ok();
  return Status(Code::kUsage, Cat("--steps: saw ", range.steps, ", but ", job.train().algorithm(),
                                  " has a loss that all workers share every ", period,
                                  " steps, and the range test needs ", kMinLosses,
                                  "; allowed: at least ", kMinLosses * period));
}

// Runs the job in its folder. Returns an error if its curve is not that of a training that ended
// well or diverged.
Result<TestRun> TrainToEnd(const pb::Job& job, StopSignals* stop_signals) {
  const std::string& folder = job.output_dir();
  if (const std::error_code error = Disk().CreateFolders(folder)) {
    return Status(Code::kCannotWrite,
                  Cat("cannot create the folder ", folder, ": ", error.message()));
  }
  const std::string job_file = folder + "/job.yaml";
  // A run that ends before its first step leaves no curve, and none of an earlier test may remain.
  for (const char* name : {"/curve.csv", "/curve.svg"}) unlink((folder + name).c_str());
  TERN_RETURN_IF_ERROR(WriteFileAtomically(job_file, config::ToYaml(job)));
  const Result<Exit> exit = RunToEnd(job_file, folder, stop_signals);
  for (const char* name : {"/weights.safetensors", "/weights_average.safetensors"})
    unlink((folder + name).c_str());  // They are of no use.
  if (!exit.ok()) return exit.status();
  if (stop_signals->signal() != 0) return stop_signals->status();
  const SweepResult result = ResultOf(*exit, folder);
  TestRun run;
  if (result.code != 0)
    run.status = Status(ParseErrorCode(static_cast<uint32_t>(result.code)), result.sentence);
  if (!run.status.ok() && run.status.code() != Code::kDiverged) return run.status;
  if (const auto csv = ReadWholeFile(folder + "/curve.csv", kMaxCsvBytes); csv.ok())
    run.rows = client::ParseCurve(*csv);
  return run;
}

// Some of the losses, about kRowsADecade for each power of ten of the rate, and the last.
std::vector<TableRow> RangeTestTable(const RateRange& range, const std::vector<RatedLoss>& losses) {
  std::vector<TableRow> rows = {{"step", "learning rate", "loss", "smoothed loss"}};
  double next_rate = range.from;
  for (const RatedLoss& loss : losses) {
    const bool is_last = &loss == &losses.back();
    if (loss.rate < next_rate * (1 - 1e-9) && !is_last) continue;
    while (next_rate <= loss.rate * (1 + 1e-9)) next_rate *= std::pow(10, 1 / kRowsADecade);
    rows.push_back({Cat(loss.step), FormatWith("%.2g", loss.rate), FormatWith("%.4f", loss.loss),
                    FormatWith("%.4f", loss.smoothed_loss)});
  }
  return rows;
}

// Runs the range test, and writes its losses, whatever they are. kUsage or kDiverged if no rate can
// be suggested.
Result<Suggestion> RunRangeTest(const TestJob& test, const RateRange& range,
                                StopSignals* stop_signals, std::vector<RatedLoss>* losses) {
  pb::Job job = test.job;
  job.mutable_train()->set_steps(range.steps);
  *job.mutable_train()->mutable_schedule() = RangeTestSchedule(range, job.train().schedule());
  const Result<TestRun> run = TrainToEnd(job, stop_signals);
  if (!run.ok()) return run.status();
  *losses = RateLosses(range, run->rows);
  TERN_RETURN_IF_ERROR(
      WriteFileAtomically(job.output_dir() + "/find_lr.csv", RangeTestCsv(*losses)));
  Result<Suggestion> suggestion = SuggestRate(range, *losses);
  if (suggestion.ok() || run->status.ok()) return suggestion;
  return Status(run->status.code(),
                Cat(suggestion.status().message(), "; the run ended: ", run->status.message()));
}

// Runs the trials around the range test's rate, and returns the best one's.
Result<double> RunTrials(const TestJob& test, double range_test_rate, StopSignals* stop_signals) {
  std::vector<Trial> trials;
  while (const std::optional<double> rate = NextTrialRate(range_test_rate, trials)) {
    std::printf("trial %zu: training for %s steps with the learning rate %.2g\n", trials.size() + 1,
                Thousands(test.trial_steps).c_str(), *rate);
    std::fflush(stdout);
    pb::Job job = test.job;
    job.set_output_dir(Cat(job.output_dir(), "/trial_", trials.size() + 1));
    job.mutable_train()->set_steps(test.trial_steps);
    *job.mutable_train()->mutable_schedule() = TrialSchedule(job.train().schedule(), *rate);
    const Result<TestRun> run = TrainToEnd(job, stop_signals);
    if (!run.ok()) return run.status();
    trials.push_back(
        {*rate, run->status.ok() ? TrialLoss(test.trial_steps, run->rows) : std::nullopt});
  }
  PrintTable(TrialTable(trials));
  if (const Trial* best = BestTrial(trials)) {
    const auto [lowest, highest] =
        std::minmax_element(trials.begin(), trials.end(),
                            [](const Trial& a, const Trial& b) { return a.rate < b.rate; });
    if (trials.size() > 1 && (best->rate == lowest->rate || best->rate == highest->rate)) {
      std::printf(
          "the best rate is the %s of those tried: longer trials (--trial_steps) may find a better "
          "one\n",
          best->rate == lowest->rate ? "lowest" : "highest");
    }
    return best->rate;
  }
  return Status(Code::kDiverged,
                Cat("all ", trials.size(), " trials diverged; the last had the learning rate ",
                    trials.back().rate,
                    "; try lower ones with tern sweep --grid "
                    "train.schedule.learning_rate=RATE,RATE,..."));
}

void PrintRangeTest(const RateRange& range, const Suggestion& suggestion) {
  std::printf(
      "range test: %.2g, a quarter of %.2g, %s\n", suggestion.rate, suggestion.too_high_rate,
      suggestion.has_risen ? "where the smoothed loss had risen halfway back from its lowest value"
                           : "the last rate with a loss");
  if (suggestion.may_be_higher) {
    std::printf(
        "the loss has not risen so far up to %g; with a higher --to, the suggestion may be "
        "higher\n",
        range.to);
  }
}

void PrintSuggestion(const TestJob& test, double rate) {
  std::printf("suggested learning rate: %.2g\n  --set train.schedule.learning_rate=%.2g\n", rate,
              rate / test.rate_factor);
  if (test.rate_factor != 1) {
    std::printf("  (train.schedule.linear_scaling_batch multiplies that key's value by %g)\n",
                test.rate_factor);
  }
}

// Removes what an earlier command left: if this one fails, nothing of it may pass for a result.
void RemoveEarlierResults(const std::string& folder) {
  for (const char* name : {"/find_lr.csv", "/find_lr.svg"}) unlink((folder + name).c_str());
  for (size_t i = 1; i <= kMaxTrials; ++i) {
    std::error_code ignored;  // A folder that stays is used again.
    std::filesystem::remove_all(Cat(folder, "/trial_", i), ignored);
  }
}

// Trains with rates in the job's folder, which is locked, and writes and prints what it finds.
Status TestRates(const TestJob& test, const RateRange& range) {
  const std::string& folder = test.job.output_dir();
  RemoveEarlierResults(folder);
  std::printf("training for up to %s steps, with learning rates from %g to %g, in %s\n",
              Thousands(range.steps).c_str(), range.from, range.to, folder.c_str());
  std::fflush(stdout);
  StopSignals stop_signals(StopSignals::SecondSignal::kReport);
  std::vector<RatedLoss> losses;
  const Result<Suggestion> suggestion = RunRangeTest(test, range, &stop_signals, &losses);
  if (!suggestion.ok()) return suggestion.status();
  PrintTable(RangeTestTable(range, losses));
  PrintRangeTest(range, *suggestion);
  Result<double> rate = suggestion->rate;
  if (test.trial_steps > 0) rate = RunTrials(test, suggestion->rate, &stop_signals);
  if (!rate.ok()) return rate.status();
  const std::string title = "learning-rate range test of " + test.job.name();
  TERN_RETURN_IF_ERROR(
      WriteFileAtomically(folder + "/find_lr.svg", RangeTestSvg(title, range, losses, *rate)));
  PrintSuggestion(test, *rate);
  std::printf("every loss is in %s/find_lr.csv, drawn in find_lr.svg\n", folder.c_str());
  return Ok();
}

}  // namespace

Status FindLearningRate(const Arguments& arguments) {
  const Result<RateRange> range = ReadRange(arguments);
  if (!range.ok()) return range.status();
  const Result<TestJob> test = ReadJob(arguments);
  if (!test.ok()) return test.status();
  TERN_RETURN_IF_ERROR(CheckLosses(test->job, *range));
  const std::string& folder = test->job.output_dir();
  TERN_RETURN_IF_ERROR(CheckIsNoLink(folder));
  if (const std::error_code error = Disk().CreateFolders(folder)) {
    return Status(Code::kCannotWrite,
                  Cat("cannot create the folder ", folder, ": ", error.message()));
  }
  const Result<FolderLock> lock =
      FolderLock::TryLock(folder, "find_lr.lock", arguments.positional().front());
  if (!lock.ok()) return lock.status();
  return TestRates(*test, *range);
}

}  // namespace tern::tools
