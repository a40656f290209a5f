// Tests of the progress line, the summary table and their JSON, which are made from workers'
// counters.
#include "setup/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/base/text.h"
#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

void AddTraffic(const std::string& type, uint64_t bytes_in, uint64_t bytes_out,
                pb::Counters* counters) {
  pb::Traffic* row = counters->add_traffic();
  row->set_type(type);
  row->set_bytes_in(bytes_in);
  row->set_bytes_out(bytes_out);
}

// Returns a worker's status after `rounds` rounds of 0.1 s each. Half of the time is computing, a
// fifth waiting, a tenth decoding.
WorkerStatus WorkerAfter(uint32_t rank, uint64_t rounds) {
  WorkerStatus worker;
  worker.rank = rank;
  pb::Counters& counters = worker.counters;
  const auto num_rounds = static_cast<double>(rounds);
  counters.set_rounds(rounds);
  counters.set_steps(rounds);
  counters.set_exchanges(rounds);
  counters.set_samples(32 * rounds);
  counters.set_train_s(0.1 * num_rounds);
  counters.set_compute_s(0.05 * num_rounds);
  counters.set_wait_s(0.02 * num_rounds + 3);  // 3 s were spent waiting for the first round.
  counters.set_decode_s(0.01 * num_rounds);
  counters.set_encode_s(0.005 * num_rounds);
  counters.set_loss(0.5);
  AddTraffic("push", 0, 1000 * rounds, &counters);
  AddTraffic("scale", 0, 100 * rounds, &counters);
  AddTraffic("sum", 2000 * rounds, 0, &counters);
  AddTraffic("scaled", 100 * rounds, 0, &counters);
  AddTraffic("heartbeat", 0, 7000, &counters);
  AddTraffic("pulse", 9000, 0, &counters);
  return worker;
}

pb::Figures MakeFigures(uint64_t hash) {
  pb::Figures figures;
  figures.set_parameters_hash(hash);
  figures.set_test_samples(200);
  figures.set_test_correct(150);
  figures.set_test_loss(100);
  figures.set_train_samples(10);
  figures.set_train_loss(4);
  return figures;
}

WorkerStatus MarkWorkerLost(WorkerStatus worker) {
  worker.is_present = false;
  return worker;
}

JobPosition PositionOf(const std::vector<WorkerStatus>& workers, uint64_t steps = 100) {
  JobPosition position;
  position.Update(steps, 0, workers);
  return position;
}
std::string MakeProgressJson(const std::vector<WorkerStatus>& workers) {
  return ProgressJson(*SmallSetup(), workers, PositionOf(workers));
}
std::string MakeSummaryJson(const std::vector<WorkerStatus>& workers, const Status& status = Ok()) {
  return SummaryJson(*SmallSetup(), workers, PositionOf(workers, 10), status);
}

TEST(Report, CountsTheFramesOfTrainingRoundsSeparately) {
  const WorkerTraffic traffic = TrafficOf(WorkerAfter(0, 10).counters);
  EXPECT_EQ(traffic.up_bytes, 11000u);
  EXPECT_EQ(traffic.down_bytes, 21000u);
  EXPECT_EQ(traffic.all_up_bytes, 18000u);
  EXPECT_EQ(traffic.all_down_bytes, 30000u);
}

TEST(Report, RatioIsFp32BytesOverBytesSent) {
  EXPECT_DOUBLE_EQ(RatioToFp32(1000, 10, 2000), 20);
  EXPECT_DOUBLE_EQ(RatioToFp32(1000, 10, 0), 0);
}

TEST(Report, SumsBytesAndSamplesAndAveragesTimes) {
  const json j = json::parse(MakeProgressJson({WorkerAfter(0, 10), WorkerAfter(1, 10)}));
  EXPECT_EQ(j["event"], "progress");
  EXPECT_EQ(j["rounds"], 10);
  EXPECT_EQ(j["steps"], 100);
  EXPECT_EQ(j["present"], 2);
  EXPECT_EQ(j["samples"], 640);
  EXPECT_EQ(j["parameters"], 431080);
  EXPECT_EQ(j["up_bytes"], 22000);
  EXPECT_EQ(j["down_bytes"], 42000);
  EXPECT_EQ(j["all_up_bytes"], 36000);
  EXPECT_EQ(j["up_bytes_per_step"], 1100);
  EXPECT_EQ(j["down_bytes_per_step"], 2100);
  EXPECT_DOUBLE_EQ(j["train_s"], 1.0);
  EXPECT_DOUBLE_EQ(j["compute_s"], 0.5);
  EXPECT_DOUBLE_EQ(j["samples_per_s"], 640);
  EXPECT_NEAR(j["up_ratio"], 4.0 * 431080 / 1100, 1e-9);
  EXPECT_NEAR(j["down_ratio"], 4.0 * 431080 / 2100, 1e-9);
}

TEST(Report, CommunicationExcludesWaitingAtTheStart) {
  // The worker waited 3.2 s in all. Of the 1 s of its rounds, 0.4 s were neither computing nor
  // decoding.
  const json j = json::parse(MakeProgressJson({WorkerAfter(0, 10)}));
  EXPECT_NEAR(j["communication_s"], 0.4, 1e-9);
  EXPECT_NEAR(j["communication_share"], 0.4, 1e-9);
}

TEST(Report, RoundsAreThoseOfTheFarthestWorker) {
  const json j = json::parse(MakeProgressJson({WorkerAfter(0, 50), WorkerAfter(1, 5)}));
  EXPECT_EQ(j["rounds"], 50);  // Worker 1 was restarted at round 45, so it has done only 5.
  EXPECT_NEAR(j["up_ratio"], 4.0 * 431080 / 1100, 1e-9);
}

TEST(Report, ALossThatAProgramDidNotSayIsLeftOut) {
  WorkerStatus worker = WorkerAfter(0, 10);
  worker.counters.set_loss(std::nan(""));
  worker.figures = MakeFigures(0xabc);
  worker.figures.set_train_loss(std::nan(""));
  const auto net = SmallSetup(), client = SmallSetup();
  client->job.mutable_train()->set_compute(pb::Train::client);
  const auto summary_of = [&](const setup::Setup& setup) {
    return json::parse(SummaryJson(setup, {worker}, PositionOf({worker}, 10), Ok()));
  };
  EXPECT_TRUE(summary_of(*net)["train_loss"].is_null()) << "not finite";
  EXPECT_TRUE(summary_of(*net).contains("loss"));
  EXPECT_FALSE(summary_of(*client).contains("train_loss"));
  EXPECT_FALSE(summary_of(*client).contains("loss"));
}

TEST(Report, SummaryHasAccuracyAndComparesReplicas) {
  WorkerStatus worker0 = WorkerAfter(0, 10), worker1 = WorkerAfter(1, 10);
  worker0.figures = worker1.figures = MakeFigures(0xabc);
  const json summary_json = json::parse(MakeSummaryJson({worker0, worker1}));
  EXPECT_EQ(summary_json["event"], "ended");
  EXPECT_EQ(summary_json["code"], 0);
  EXPECT_DOUBLE_EQ(summary_json["accuracy"], 0.75);
  EXPECT_DOUBLE_EQ(summary_json["test_loss"], 0.5);
  EXPECT_DOUBLE_EQ(summary_json["train_loss"], 0.4);
  EXPECT_EQ(summary_json["replicas_agree"], true);
  worker1.figures.set_parameters_hash(0xabd);
  EXPECT_EQ(json::parse(MakeSummaryJson({worker0, worker1}))["replicas_agree"], false);
}

TEST(Report, SummaryOmitsReplicasThatWereNotCompared) {
  WorkerStatus worker0 = WorkerAfter(0, 10);
  worker0.figures = MakeFigures(1);
  const json j = json::parse(
      MakeSummaryJson({worker0, WorkerAfter(1, 10)}, Status(Code::kPeerLost, "worker 1 was lost")));
  EXPECT_FALSE(j.contains("replicas_agree"));
  EXPECT_EQ(j["code"], 75);
  EXPECT_EQ(j["sentence"], "worker 1 was lost");
}

TEST(Report, AddsUpTheCheckpointsThatCouldNotBeWritten) {
  const auto setup = SmallSetup();
  std::vector<WorkerStatus> workers = {WorkerAfter(0, 10), WorkerAfter(1, 10)};
  const std::string without_failures = SummaryJson(*setup, workers, PositionOf(workers), Ok());
  EXPECT_EQ(json::parse(without_failures)["failed_checkpoints"], 0);
  EXPECT_THAT(SummaryTable(without_failures), Not(HasSubstr("COULD NOT BE WRITTEN")));
  workers[1].counters.set_failed_checkpoints(2);
  const std::string summary = SummaryJson(*setup, workers, PositionOf(workers), Ok(), 3);
  EXPECT_EQ(json::parse(summary)["failed_checkpoints"], 5);
  EXPECT_THAT(SummaryTable(summary), HasSubstr("5 COULD NOT BE WRITTEN"));
  const auto update = ParseProgressUpdate(ProgressJson(*setup, workers, PositionOf(workers), 1));
  ASSERT_TRUE(update.has_value());
  EXPECT_EQ(update->failed_checkpoints, 3u);
}

// A worker that has not computed a gradient yet has no loss, and no speed.
TEST(Report, MeansLeaveOutWorkersThatHaveNotBegun) {
  WorkerStatus new_worker;
  new_worker.rank = 1;
  const json progress = json::parse(MakeProgressJson({WorkerAfter(0, 10), new_worker}));
  EXPECT_DOUBLE_EQ(progress["loss"], 0.5);
  EXPECT_DOUBLE_EQ(progress["samples_per_s"], 320);
  EXPECT_FALSE(json::parse(MakeProgressJson({new_worker})).contains("loss"));
}

// Worker 1 spent 8 of 10 s in writing checkpoints, while worker 0 waited for it in its round.
TEST(Report, TheSpeedFitsTheTimeOfAStep) {
  WorkerStatus waiting = WorkerAfter(0, 100), writing = WorkerAfter(1, 100);
  writing.counters.set_train_s(2);
  const json summary = json::parse(MakeSummaryJson({waiting, writing}));
  EXPECT_DOUBLE_EQ(summary["train_s"], 6);
  EXPECT_DOUBLE_EQ(summary["step_s"], 0.06);
  EXPECT_DOUBLE_EQ(summary["samples_per_s"], 64 / 0.06);
}

TEST(Report, ProgressAndSummaryCanBeParsed) {
  const auto progress = ParseProgressUpdate(
      MakeProgressJson({WorkerAfter(0, 12), MarkWorkerLost(WorkerAfter(1, 12))}));
  ASSERT_TRUE(progress.has_value());
  EXPECT_FALSE(progress->has_ended);
  EXPECT_EQ(progress->rounds, 12u);
  EXPECT_EQ(progress->num_workers, 2u);
  EXPECT_EQ(progress->num_present, 1u);
  const auto ended_update =
      ParseProgressUpdate(MakeSummaryJson({}, Status(Code::kTerminated, "stopped \xff")));
  ASSERT_TRUE(ended_update.has_value());
  EXPECT_TRUE(ended_update->has_ended);
  EXPECT_EQ(ended_update->code, 143);
  EXPECT_THAT(ended_update->sentence, HasSubstr("stopped "));
}

TEST(Report, OtherLinesAreIgnored) {
  for (const char* line : {"", "{", "[]", "7", "{}", "{\"event\":\"other\"}", "{\"event\":7}"}) {
    EXPECT_FALSE(ParseProgressUpdate(line).has_value()) << line;
  }
  EXPECT_EQ(ParseProgressUpdate("{\"event\":\"progress\",\"rounds\":\"x\",\"present\":-1}")->rounds,
            0u);
}

TEST(Report, RunSummaryAddsHowTheRunEnded) {
  const std::string newest_progress = MakeProgressJson({WorkerAfter(0, 12)});
  const json j = json::parse(RunSummaryJson(newest_progress, {75, "worker 0 is gone", 2, 12.5}));
  EXPECT_EQ(j["event"], "ended");
  EXPECT_EQ(j["rounds"], 12);
  EXPECT_EQ(j["code"], 75);
  EXPECT_EQ(j["sentence"], "worker 0 is gone");
  EXPECT_EQ(j["restarts"], 2);
  EXPECT_EQ(j["wall_s"], 12.5);
  EXPECT_EQ(json::parse(RunSummaryJson("", {69, "no port", 0, 1}))["code"], 69);
}

TEST(Report, SummaryUsesTheEvaluationOfTheRemainingWorkers) {
  WorkerStatus remaining_worker = WorkerAfter(1, 10);
  remaining_worker.figures = MakeFigures(0xabc);
  const std::string summary =
      MakeSummaryJson({MarkWorkerLost(WorkerAfter(0, 4)), remaining_worker});
  const json j = json::parse(summary);
  EXPECT_DOUBLE_EQ(j["accuracy"], 0.75);
  EXPECT_DOUBLE_EQ(j["train_loss"], 0.4);
  EXPECT_EQ(j["parameters_hash"], "0000000000000abc");
  EXPECT_EQ(j["replicas_agree"], true);
  EXPECT_EQ(j["present"], 1);
  EXPECT_EQ(j["lost"], json::array({0}));
  EXPECT_DOUBLE_EQ(j["train_s"], 1.0) << "mean over the present workers";
  EXPECT_EQ(j["samples"], 32 * 14) << "sum over all workers";
  EXPECT_THAT(SummaryTable(summary),
              AllOf(HasSubstr("servers, workers      1, 1 of 2 (without worker 0)\n"),
                    HasSubstr("replicas              agree"),
                    HasSubstr("test accuracy         75.00 % (150 of 200 images)")));
}

TEST(Report, SaysWhoWroteTheWeightsIfTheLowestRankCouldNot) {
  WorkerStatus worker0 = WorkerAfter(0, 10), worker1 = WorkerAfter(1, 10);
  worker0.figures = MakeFigures(1);
  worker0.figures.set_weights_path("/b/weights.safetensors");
  worker1.figures = worker0.figures;
  EXPECT_THAT(SummaryTable(MakeSummaryJson({worker0, worker1})), Not(HasSubstr("weights")));
  worker0.figures.set_weights_rank(1);
  worker0.figures.set_weights_error(
      "worker 0: cannot write /a/weights.safetensors: disk full\x1b[2J\ntest accuracy 100 %");
  const std::string summary = MakeSummaryJson({worker0, worker1});
  EXPECT_EQ(json::parse(summary)["weights_path"], "/b/weights.safetensors");
  EXPECT_EQ(json::parse(summary)["weights_rank"], 1);
  EXPECT_THAT(SummaryTable(summary),
              HasSubstr("in /b/weights.safetensors of worker 1, because worker 0: cannot write "
                        "/a/weights.safetensors: disk full"));
  // What the worker says can neither steer a terminal nor make a row.
  EXPECT_THAT(SummaryTable(summary), Not(HasSubstr("\x1b")));
  EXPECT_THAT(SummaryTable(summary), Not(HasSubstr("\ntest accuracy")));
}

TEST(Report, NoTextInTheTableMovesTheCursorOrMakesARow) {
  const std::string table = SummaryTable(
      R"({"job":"l\u00e9","code":0,"rounds":1,"samples":1,"weights_path":"/a\u001b[2J",)"
      R"("weights_error":"x\ntest accuracy 99 %","advice":["\u0007y"]})");
  EXPECT_THAT(table, HasSubstr("l\u00e9\n"));
  EXPECT_THAT(table, HasSubstr("in /a\\x1b[2J of worker 0, because x\\x0atest accuracy 99 %\n"));
  EXPECT_THAT(table, HasSubstr("advice                \\x07y"));
}

TEST(Report, AJobWithoutALengthShowsNone) {
  const WorkerStatus worker = WorkerAfter(0, 10);
  EXPECT_THAT(ProgressLine(ProgressJson(*SmallSetup(), {worker}, PositionOf({worker}, 0))),
              testing::StartsWith("step 10  loss "));
}

TEST(Report, AResumedRunCountsStepsOfTheJob) {
  // 10 rounds of 0.1 s in this run, after 150 rounds of an earlier run.
  WorkerStatus worker = WorkerAfter(0, 10);
  worker.counters.set_job_step(160);
  worker.counters.set_from_step(150);
  const std::string progress = ProgressJson(*SmallSetup(), {worker}, PositionOf({worker}, 250));
  EXPECT_EQ(json::parse(progress)["rounds"], 160);
  EXPECT_THAT(ProgressLine(progress), AllOf(HasSubstr("step 160/250"), HasSubstr("9.0 s left"),
                                            HasSubstr("320 img/s"), HasSubstr("3.2 KB a step")));
  // The progress line covers the time since an earlier report, here one from the start of this run.
  // The 150 steps of the earlier run must not count as work of that time.
  EXPECT_EQ(ProgressLine(progress, MakeProgressJson({WorkerStatus{}})), ProgressLine(progress));
  EXPECT_THAT(SummaryTable(progress),
              HasSubstr("steps                 160 of 250 (last went on from step 150)\n"));
  WorkerStatus resumed_worker;
  resumed_worker.counters.set_job_step(150);
  resumed_worker.counters.set_from_step(150);
  EXPECT_EQ(ProgressLine(
                ProgressJson(*SmallSetup(), {resumed_worker}, PositionOf({resumed_worker}, 250))),
            "step 150/250  waiting for the first step from there  workers 1/2");
}

TEST(Report, TableOfAFailedRunOmitsWhatWasNotReached) {
  const Status lost_worker_status(Code::kPeerLost, "worker 1 was lost");
  EXPECT_EQ(SummaryTable(MakeSummaryJson({WorkerStatus{}, MarkWorkerLost(WorkerStatus{})},
                                         lost_worker_status)),
            "");
  WorkerStatus resumed_worker;
  resumed_worker.counters.set_job_step(5);
  resumed_worker.counters.set_from_step(5);
  EXPECT_EQ(SummaryTable(MakeSummaryJson({resumed_worker}, lost_worker_status)),
            "  job               small\n  parameters        431080\n  servers, workers  1, 2\n"
            "  steps             5 of 10 (last went on from step 5)\n"
            "  exit code         75\n");
  EXPECT_THAT(SummaryTable(MakeSummaryJson({WorkerAfter(0, 4)}, lost_worker_status)),
              AllOf(HasSubstr("steps                 4 of 10\n"), HasSubstr("samples   "),
                    Not(HasSubstr("accuracy"))));
}

TEST(Report, TableShowsAllRows) {
  WorkerStatus worker0 = WorkerAfter(0, 10), worker1 = WorkerAfter(1, 10);
  worker0.figures = worker1.figures = MakeFigures(0xabc);
  const std::string table = SummaryTable(MakeSummaryJson({worker0, worker1}));
  EXPECT_THAT(table, AllOf(HasSubstr("parameters            431080\n"),
                           HasSubstr("steps                 10\n"),
                           HasSubstr("samples               640, 640 a second"),
                           HasSubstr("up-link               22.0 KB, 1.1 KB a worker and step, "
                                     "1567.56x smaller than fp32"),
                           HasSubstr("test accuracy         75.00 % (150 of 200 images)"),
                           HasSubstr("replicas              agree, hash 0000000000000abc")));
  worker1.figures.set_parameters_hash(1);
  EXPECT_THAT(SummaryTable(MakeSummaryJson({worker0, worker1})), HasSubstr("DIFFER"));
  EXPECT_THAT(SummaryTable(MakeSummaryJson({})), Not(HasSubstr("accuracy")));
  EXPECT_EQ(SummaryTable("nonsense"), "no summary\n");
}

TEST(Report, ProgressLineShowsAllValues) {
  const std::string line = ProgressLine(MakeProgressJson({WorkerAfter(0, 10), WorkerAfter(1, 10)}));
  EXPECT_EQ(line,
            "step 10/100  loss 0.5000  640 img/s  waiting 40 %  3.2 KB a step  1567.6x less up, "
            "821.1x less down  workers 2/2  9.0 s left");
}

TEST(Report, ANarrowProgressLineKeepsWhatIsMostImportant) {
  const std::string progress = MakeProgressJson({WorkerAfter(0, 10), WorkerAfter(1, 10)});
  EXPECT_EQ(ProgressLine(progress, "", 79),
            "step 10/100  loss 0.5000  640 img/s  waiting 40 %  workers 2/2  9.0 s left");
  EXPECT_EQ(ProgressLine(progress, "", 60),
            "step 10/100  loss 0.5000  640 img/s  workers 2/2  9.0 s left");
  EXPECT_EQ(ProgressLine(progress, "", 50), "step 10/100  loss 0.5000  640 img/s  9.0 s left");
  EXPECT_EQ(ProgressLine(progress, "", 10), "step 10/100  9.0 s left");
}

TEST(Report, ProgressLineHasNoBytesBeforeTheFirstExchangeIsComplete) {
  WorkerStatus worker = WorkerAfter(0, 1);
  worker.counters.clear_exchanges();
  EXPECT_THAT(
      ProgressLine(MakeProgressJson({worker})),
      AllOf(HasSubstr("step 1/100  loss"), Not(HasSubstr("less up")), Not(HasSubstr("KB"))));
}

TEST(Report, ProgressLineShowsAnEvaluation) {
  WorkerStatus worker0 = WorkerAfter(0, 100), worker1 = WorkerAfter(1, 100);
  for (WorkerStatus* worker : {&worker0, &worker1}) {
    worker->counters.set_evaluated(2000);
    worker->counters.set_to_evaluate(5000);
  }
  EXPECT_EQ(ProgressLine(MakeProgressJson({worker0, worker1})),
            "step 100/100  evaluating 4,000 of 10,000  workers 2/2");
}

std::string TableOfJob(const std::vector<std::string>& overrides) {
  std::vector<WorkerStatus> workers = {WorkerAfter(0, 10), WorkerAfter(1, 10)};
  return SummaryTable(SummaryJson(*SmallSetup(overrides), workers, PositionOf(workers, 10), Ok()));
}

TEST(Report, TableHasTheFiguresOfAnAlgorithmOnlyWhereItIsUsed) {
  EXPECT_THAT(TableOfJob({}), AllOf(HasSubstr("a step                100.000 ms\n"),
                                    HasSubstr("gradients             20\n"),
                                    Not(HasSubstr("OD-SGD")), Not(HasSubstr("T_cop"))));
  EXPECT_THAT(
      TableOfJob({"train.algorithm=odsgd"}),
      AllOf(HasSubstr("OD-SGD's model"), HasSubstr("T_cop, T_com"), Not(HasSubstr("local steps"))));
  EXPECT_THAT(TableOfJob({"train.algorithm=psgd", "train.psgd.p=4", "exchange.codec=fp32"}),
              AllOf(HasSubstr("20, 0 of them local steps\n"), Not(HasSubstr("OD-SGD"))));
}

TEST(Report, TableHasTheAdvice) {
  std::vector<WorkerStatus> workers = {WorkerAfter(0, 10), WorkerAfter(1, 10)};
  for (WorkerStatus& worker : workers) worker.counters.set_checkpoint_s(1);
  const std::string summary = MakeSummaryJson(workers);
  EXPECT_EQ(json::parse(summary)["advice"].size(), 1u);
  EXPECT_THAT(SummaryTable(RunSummaryJson(summary, {0, "", 0, 3})),
              AllOf(HasSubstr("writing checkpoints   1.0 s\n"),
                    HasSubstr("advice                writing checkpoints took 50 % of the time")));
}

// A summary with every field.
json FullSummary() {
  WorkerStatus worker = WorkerAfter(0, 10);
  worker.counters.add_staleness(3);
  worker.counters.set_checkpoint_s(1);
  worker.figures = MakeFigures(7);
  worker.figures.mutable_evaluations()->set_count(2);
  worker.figures.mutable_evaluations()->set_best_step(5);
  worker.figures.mutable_evaluations()->set_last_step(5);
  worker.figures.set_weights_path("elsewhere");
  worker.figures.set_weights_error("no space");
  return json::parse(RunSummaryJson(MakeSummaryJson({worker}), {0, "", 0, 3}));
}

TEST(Report, EveryFieldOfTheSummaryIsDocumented) {
  std::ifstream file("docs/WATCHING.md");
  std::stringstream page;
  page << file.rdbuf();
  const json fields = FullSummary();
  EXPECT_GE(fields.size(), 65u) << fields;
  for (const auto& [name, value] : fields.items())
    EXPECT_THAT(page.str(), HasSubstr(Cat("`", name, "`")));
}

TEST(Report, ProgressLineCoversTheIntervalSinceThePreviousOne) {
  WorkerStatus later_worker = WorkerAfter(0, 20);
  // The last ten rounds took 2 s instead of 1 s; 1.5 s of these 2 s were waiting.
  later_worker.counters.set_train_s(3);
  later_worker.counters.set_wait_s(WorkerAfter(0, 10).counters.wait_s() + 1.5);
  later_worker.counters.set_compute_s(0.7);
  later_worker.counters.set_decode_s(0.3);
  const std::string earlier_progress = MakeProgressJson({WorkerAfter(0, 10)});
  const std::string line = ProgressLine(MakeProgressJson({later_worker}), earlier_progress);
  EXPECT_THAT(line,
              AllOf(HasSubstr("160 img/s"), HasSubstr("waiting 80 %"), HasSubstr("16.0 s left")));
}

TEST(Report, ProgressLineIgnoresALineFromBeforeARestart) {
  const std::string earlier_progress = MakeProgressJson({WorkerAfter(0, 10)});
  const std::string later_progress = MakeProgressJson({WorkerAfter(0, 5)});
  EXPECT_EQ(ProgressLine(later_progress, earlier_progress), ProgressLine(later_progress));
  EXPECT_EQ(ProgressLine(earlier_progress, earlier_progress), ProgressLine(earlier_progress));
}

TEST(Report, ProgressLineBeforeTheFirstRoundSaysThatItWaits) {
  EXPECT_EQ(ProgressLine(MakeProgressJson({WorkerStatus{}, MarkWorkerLost(WorkerStatus{})})),
            "waiting for the first step  workers 1/2");
  EXPECT_EQ(ProgressLine("nonsense"), "");
}

TEST(Report, ShowsThatALossIsNotFinite) {
  WorkerStatus worker = WorkerAfter(0, 10);
  worker.counters.set_loss(std::nan(""));
  EXPECT_THAT(ProgressLine(MakeProgressJson({worker})), HasSubstr("loss not finite"));
}

TEST(Report, CountersJsonHasTrafficByMessageType) {
  const json j = json::parse(CountersJson(WorkerAfter(0, 10).counters));
  EXPECT_EQ(j["rounds"], 10);
  EXPECT_EQ(j["traffic"]["push"]["bytes_out"], 10000);
  EXPECT_EQ(j["traffic"]["pulse"]["bytes_in"], 9000);
}

}  // namespace
}  // namespace tern::setup
