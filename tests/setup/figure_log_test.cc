#include "setup/figure_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <sstream>

namespace tern::setup {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// A worker after `rounds` rounds of 0.1 s: 50 % computing, 10 % decoding, 15 % waiting for samples,
// 20 % waiting for sums.
WorkerStatus WorkerOfLog(uint32_t rank, uint64_t rounds) {
  WorkerStatus worker;
  worker.rank = rank;
  pb::Counters& counters = worker.counters;
  const auto num_rounds = static_cast<double>(rounds);
  counters.set_rounds(rounds);
  counters.set_steps(rounds);
  counters.set_samples(32 * rounds);
  counters.set_train_s(0.1 * num_rounds);
  counters.set_compute_s(0.05 * num_rounds);
  counters.set_decode_s(0.01 * num_rounds);
  counters.set_data_s(0.015 * num_rounds);
  counters.set_wait_s(0.02 * num_rounds + 3);  // 3 s were spent waiting for the first round.
  counters.set_encode_s(0.03 * num_rounds);
  counters.set_loss(0.5);
  pb::Traffic* push = counters.add_traffic();
  push->set_type("push");
  push->set_bytes_out(1000 * rounds);
  pb::Traffic* sum = counters.add_traffic();
  sum->set_type("sum");
  sum->set_bytes_in(2000 * rounds);
  pb::Traffic* heartbeat = counters.add_traffic();
  heartbeat->set_type("heartbeat");
  heartbeat->set_bytes_out(70 * rounds);
  return worker;
}

constexpr const char* kTraining =
    ", loss 0.5000, 320 samples/s, 1.0 KB up and 2.0 KB down a step, computing 50 %, waiting for "
    "sums 20 %, waiting for samples 15 %, decoding 10 %, encoding in parallel 30 %";

TEST(FigureLog, DescribesWhatAWorkerDidSinceTheLineBefore) {
  const FigureLine line =
      DescribeFigures({WorkerOfLog(0, 40)}, {WorkerOfLog(0, 140)}, 140, 3000, seconds(10));
  EXPECT_EQ(line.text, std::string("step 140 of 3000") + kTraining);
  const std::map<std::string, double> numbers(line.numbers.begin(), line.numbers.end());
  EXPECT_EQ(numbers.at("step"), 140);
  EXPECT_EQ(numbers.at("steps"), 3000);
  EXPECT_EQ(numbers.at("up_bytes_per_step"), 1000);
  EXPECT_NEAR(numbers.at("samples_per_s"), 320, 1e-6);
  EXPECT_NEAR(numbers.at("computing_share"), 0.5, 1e-6);
  EXPECT_NEAR(numbers.at("waiting_share"), 0.2, 1e-6);
  EXPECT_NEAR(numbers.at("data_share"), 0.15, 1e-6);
  EXPECT_NEAR(numbers.at("decoding_share"), 0.1, 1e-6);
  EXPECT_NEAR(numbers.at("encoding_share"), 0.3, 1e-6);
}

TEST(FigureLog, TheLineOfAJobHasTheSpeedOfAllAndWhoIsPresent) {
  std::vector<WorkerStatus> before = {WorkerOfLog(0, 10), WorkerOfLog(1, 10)};
  std::vector<WorkerStatus> now = {WorkerOfLog(0, 20), WorkerOfLog(1, 20)};
  EXPECT_THAT(DescribeFigures(before, now, 20, 0, seconds(10)).text,
              testing::AllOf(HasSubstr("step 20, loss"), HasSubstr("640 samples/s"),
                             HasSubstr("1.0 KB up and 2.0 KB down a step"),
                             HasSubstr("computing 50 %"), HasSubstr(", workers 2 of 2")));
  now[1].is_present = false;
  EXPECT_THAT(DescribeFigures(before, now, 20, 0, seconds(10)).text,
              testing::AllOf(HasSubstr("320 samples/s"), HasSubstr(", workers 1 of 2")));
}

TEST(FigureLog, ARestartedWorkerCountsFromZero) {
  const std::string text =
      DescribeFigures({WorkerOfLog(0, 500)}, {WorkerOfLog(0, 100)}, 600, 3000, seconds(10)).text;
  EXPECT_THAT(text, testing::AllOf(HasSubstr("step 600 of 3000, loss"), HasSubstr("320 samples/s"),
                                   HasSubstr("1.0 KB up and 2.0 KB down a step, computing 50 %")));
}

TEST(FigureLog, SaysWhyThereIsNoSpeed) {
  WorkerStatus worker = WorkerOfLog(0, 50);
  EXPECT_EQ(DescribeFigures({worker}, {worker}, 50, 50, seconds(10)).text,
            "step 50 of 50, no step in the last 10.0 s");
  worker.counters.set_evaluated(4000);
  worker.counters.set_to_evaluate(10000);
  EXPECT_EQ(DescribeFigures({worker}, {worker}, 50, 50, seconds(10)).text,
            "step 50 of 50, evaluating 4000 of 10000 test samples");
}

std::string LinesAt(uint32_t log_every_s, const std::vector<int>& times_s,
                    pb::Train::Compute compute = pb::Train().compute(), double loss = 0.5) {
  pb::Job job;
  job.mutable_train()->set_compute(compute);
  job.mutable_metrics()->set_log_every_s(log_every_s);
  FigureLog log(job);
  testing::internal::CaptureStderr();  // Before InitLogging, glog writes there.
  for (const int time_s : times_s) {
    WorkerStatus worker = WorkerOfLog(0, 10 * static_cast<uint64_t>(time_s));
    worker.counters.set_loss(loss);
    log.LogIfDue({worker}, 10 * static_cast<uint64_t>(time_s), 3000, seconds(time_s), Print::kYes);
  }
  return testing::internal::GetCapturedStderr();
}

TEST(FigureLog, LogsALinePerInterval) {
  std::vector<std::string> lines;
  std::istringstream logged(LinesAt(10, {5, 6, 14, 15, 16, 24, 26, 30}));
  for (std::string line; std::getline(logged, line);) {
    if (line.find(" of 3000, loss") != std::string::npos) lines.push_back(line);
  }
  EXPECT_THAT(lines, testing::ElementsAre(HasSubstr("figure_log.cc"), HasSubstr("step 260 of")));
  EXPECT_EQ(LinesAt(0, {5, 50, 500}), "");
}

TEST(FigureLog, ALossThatAProgramDoesNotSayIsNoAlarm) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(LinesAt(10, {5, 15}, pb::Train().compute(), nan), HasSubstr("loss not finite"));
  for (const auto compute : {pb::Train::client, pb::Train::module}) {
    EXPECT_THAT(
        LinesAt(10, {5, 15}, compute, nan),
        testing::AllOf(HasSubstr(" of 3000, 320 samples/s"), testing::Not(HasSubstr("loss"))));
    EXPECT_THAT(LinesAt(10, {5, 15}, compute), HasSubstr("loss 0.5000"));
  }
}

}  // namespace
}  // namespace tern::setup
