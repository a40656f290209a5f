// tern find_lr: the learning-rate range test. It runs the job for some steps as `tern run` does, in
// a folder of its own, with a rate that grows exponentially, and reads the losses from that run's
// curve.csv.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "client/train/curve.h"
#include "client/train/plot.h"
#include "common/base/atomic_file.h"
#include "common/base/folder_lock.h"
#include "common/base/signals.h"
#include "common/base/storage.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "setup/setup.h"
#include "tools/commands.h"
#include "tools/find_lr/range_test.h"
#include "tools/run/run_to_end.h"
#include "tools/sweep/results.h"
#include "tools/table.h"

namespace tern::tools {
namespace {

constexpr uint32_t kMaxSteps = 100'000;
constexpr double kMaxRate = 1e6;
constexpr uint64_t kTestImages = 100;  // A run ends with an evaluation, which is not used here.
constexpr uint64_t kMaxCsvBytes = 64 << 20;
constexpr double kRowsADecade = 2;  // of the table on the screen

// The job of the range test.
struct RangeTestJob {
  pb::Job job;
  double rate_factor = 1;  // The job's rate is train.schedule.learning_rate times this.
  std::string title;
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

// Changes the keys of the job that say how long it trains, at which rates and what it writes.
void MakeRangeTest(const RateRange& range, const std::string& folder, pb::Job* job) {
  job->set_output_dir(folder);
  pb::Train* train = job->mutable_train();
  train->clear_epochs();
  train->set_steps(range.steps);
  train->clear_batch_growth();
  train->clear_stop_when();
  train->clear_schedule();
  pb::Schedule* schedule = train->mutable_schedule();
  schedule->set_name("exponential");
  schedule->set_learning_rate(range.from);
  schedule->set_gamma(range.to / range.from);
  schedule->set_step_every(range.steps - 1);
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

Result<RangeTestJob> ReadJob(const Arguments& arguments, const RateRange& range) {
  const std::string& job_file = arguments.positional().front();
  auto setup = setup::MakeSetup(job_file, arguments.AllValues("set"));
  if (!setup.ok()) return setup.status();
  RangeTestJob test;
  test.job = (*setup)->job;
  if (!(*setup)->plan.has_rounds) {
    return Status(Code::kBadJob,
                  Cat(job_file, ": train.algorithm: saw ", test.job.train().algorithm(),
                      ", which has no rounds, so a step has no loss that all workers share; the "
                      "range test needs an algorithm with rounds (docs/JOBS.md lists them); choose "
                      "one with --set train.algorithm=NAME"));
  }
  if (test.job.train().compute() != pb::Train::net) {
    return Status(Code::kBadJob, Cat(job_file,
                                     ": train.compute: saw wait, which has no loss; the "
                                     "range test needs net"));
  }
  const uint32_t scaling_batch = test.job.train().schedule().linear_scaling_batch();
  if (scaling_batch != 0) {
    test.rate_factor =
        static_cast<double>(test.job.train().batch_total()) / static_cast<double>(scaling_batch);
  }
  test.title = "learning-rate range test of " + test.job.name();
  MakeRangeTest(range, test.job.output_dir() + "/find_lr", &test.job);
  return test;
}

// Runs the job in its folder, and returns how it ended. Only a run that ended well or diverged has
// a whole curve.
Status TrainToEnd(const pb::Job& job, StopSignals* stop_signals) {
  const std::string& folder = job.output_dir();
  const std::string job_file = folder + "/job.yaml";
  // A run that ends before its first step leaves no curve, and none of an earlier test may remain.
  for (const char* name : {"/curve.csv", "/curve.svg", "/find_lr.csv", "/find_lr.svg"})
    unlink((folder + name).c_str());
  TERN_RETURN_IF_ERROR(WriteFileAtomically(job_file, config::ToYaml(job)));
  const Result<Exit> exit = RunToEnd(job_file, folder, stop_signals);
  unlink((folder + "/weights.safetensors").c_str());  // They are of no use.
  if (!exit.ok()) return exit.status();
  if (stop_signals->signal() != 0) return stop_signals->status();
  const SweepResult result = ResultOf(*exit, folder);
  if (result.code == 0) return Ok();
  return Status(ParseErrorCode(static_cast<uint32_t>(result.code)), result.sentence);
}

// Some of the losses, about kRowsADecade for each power of ten of the rate, and the last.
std::vector<TableRow> RangeTestTable(const RateRange& range, const std::vector<RatedLoss>& losses) {
  std::vector<TableRow> rows = {{"step", "learning rate", "loss", "smoothed loss"}};
  double next_rate = range.from;
  for (const RatedLoss& loss : losses) {
    const bool is_last = &loss == &losses.back();
    if (loss.rate < next_rate * (1 - 1e-9) && !is_last) continue;
    while (next_rate <= loss.rate * (1 + 1e-9)) next_rate *= std::pow(10, 1 / kRowsADecade);
    rows.push_back({Cat(loss.step), client::FormatWith("%.2g", loss.rate),
                    client::FormatWith("%.4f", loss.loss),
                    client::FormatWith("%.4f", loss.smoothed_loss)});
  }
  return rows;
}

void PrintSuggestion(const RangeTestJob& test, const RateRange& range,
                     const Suggestion& suggestion) {
  std::printf(
      "suggested learning rate: %.2g, a quarter of %.2g, where the smoothed loss had risen halfway "
      "back from its lowest value\n  --set train.schedule.learning_rate=%.2g\n",
      suggestion.rate, suggestion.too_high_rate, suggestion.rate / test.rate_factor);
  if (test.rate_factor != 1) {
    std::printf("  (train.schedule.linear_scaling_batch multiplies that key's value by %g)\n",
                test.rate_factor);
  }
  if (suggestion.may_be_higher) {
    std::printf(
        "the loss has not risen so far up to %g; with a higher --to, the suggestion may be "
        "higher\n",
        range.to);
  }
}

}  // namespace

Status FindLearningRate(const Arguments& arguments) {
  const Result<RateRange> range = ReadRange(arguments);
  if (!range.ok()) return range.status();
  const Result<RangeTestJob> test = ReadJob(arguments, *range);
  if (!test.ok()) return test.status();
  const std::string& folder = test->job.output_dir();
  if (const std::error_code error = Disk().CreateFolders(folder)) {
    return Status(Code::kCannotWrite,
                  Cat("cannot create the folder ", folder, ": ", error.message()));
  }
  const Result<FolderLock> lock =
      FolderLock::TryLock(folder, "find_lr.lock", arguments.positional().front());
  if (!lock.ok()) return lock.status();
  std::printf("training for up to %s steps, with learning rates from %g to %g, in %s\n",
              Thousands(range->steps).c_str(), range->from, range->to, folder.c_str());
  std::fflush(stdout);
  StopSignals stop_signals(StopSignals::SecondSignal::kReport);
  const Status run_status = TrainToEnd(test->job, &stop_signals);
  if (!run_status.ok() && run_status.code() != Code::kDiverged) return run_status;
  std::vector<client::CurveRow> rows;
  if (const auto csv = ReadWholeFile(folder + "/curve.csv", kMaxCsvBytes); csv.ok())
    rows = client::ParseCurve(*csv);
  const std::vector<RatedLoss> losses = RateLosses(*range, rows);
  TERN_RETURN_IF_ERROR(WriteFileAtomically(folder + "/find_lr.csv", RangeTestCsv(losses)));
  const Result<Suggestion> suggestion = SuggestRate(*range, losses);
  if (!suggestion.ok()) {
    if (run_status.ok()) return suggestion.status();
    return Status(run_status.code(),
                  Cat(suggestion.status().message(), "; the run ended: ", run_status.message()));
  }
  TERN_RETURN_IF_ERROR(WriteFileAtomically(folder + "/find_lr.svg",
                                           RangeTestSvg(test->title, *range, losses, *suggestion)));
  PrintTable(RangeTestTable(*range, losses));
  PrintSuggestion(*test, *range, *suggestion);
  std::printf("every loss is in %s/find_lr.csv, drawn in find_lr.svg\n", folder.c_str());
  return Ok();
}

}  // namespace tern::tools
