// Tests of the status of a job that shard 0 keeps, and of its JSON, routes and metrics.
#include "server/status/status_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "common/protocol/rounds/cells.h"
#include "server/status/status_json.h"
#include "server/status/status_metrics.h"
#include "server/status/status_routes.h"
#include "tests/setup/small_job.h"

namespace tern::server {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A worker that has done `step` of the job's steps, of 0.1 s each.
WorkerObservation Training(uint64_t step, const std::string& host = "node1") {
  WorkerObservation worker;
  worker.state = "training";
  worker.host = host;
  worker.pid = 4711;
  worker.incarnation = 1;
  worker.silent = Time{};
  worker.is_present = true;
  worker.counters.set_job_step(step);
  worker.counters.set_rounds(step);
  worker.counters.set_steps(step);
  worker.counters.set_samples(32 * step);
  worker.counters.set_train_s(0.1 * static_cast<double>(step));
  worker.counters.set_loss(0.5);
  return worker;
}

class StatusBoardTest : public testing::Test {
 protected:
  // Updates the board; workers are those of the argument, by rank.
  void Update(const std::vector<WorkerObservation>& workers, Time now,
              const std::string& state = "running") {
    Observation seen;
    seen.state = state;
    seen.workers = workers;
    seen.workers.resize(2);
    std::vector<setup::WorkerStatus> statuses;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const WorkerObservation& worker = seen.workers[rank];
      statuses.push_back({rank, worker.counters, {}, worker.is_present, worker.is_joining});
    }
    position_.Update(100, beginning_, statuses);
    board_.Update(seen, position_, now);
  }
  json Json(Time now) const { return json::parse(StatusJson(*setup_, *board_.status(), now)); }
  // Tells the board of an evaluation of `round`: both workers have classified `correct` of 50.
  void SendTest(uint64_t round, uint64_t correct, protocol::FiguresPurpose purpose) {
    pb::Figures figures;
    figures.set_test_correct(correct);
    figures.set_test_samples(50);
    figures.set_test_loss(25);
    pb::FiguresOfAll all;
    for (int rank = 0; rank < 2; ++rank) all.add_by_rank(figures.SerializeAsString());
    pb::Envelope head;
    head.mutable_all_figures()->set_chunk(purpose);
    head.mutable_all_figures()->mutable_of_round()->set_round(round);
    board_.OnSent(head, Bytes::Own(all.SerializeAsString()));
  }

  const std::unique_ptr<setup::Setup> setup_ = setup::SmallSetup();
  StatusBoard board_{*setup_};
  setup::JobPosition position_;
  uint64_t beginning_ = 1;
};

TEST_F(StatusBoardTest, TellsOfTheJobAndOfEachWorker) {
  Update({Training(10), Training(8)}, seconds(100));
  Update({Training(30), Training(28)}, seconds(102));
  const json status = Json(seconds(102));
  EXPECT_EQ(status["job"]["name"], "small");
  EXPECT_EQ(status["job"]["model"], "lenet");
  EXPECT_EQ(status["job"]["shrinks"], false);
  EXPECT_EQ(status["state"], "running");
  EXPECT_EQ(status["step"], 30);
  EXPECT_EQ(status["steps"], 100);
  EXPECT_DOUBLE_EQ(status["steps_per_s"], 10);
  EXPECT_DOUBLE_EQ(status["left_s"], 7);
  EXPECT_DOUBLE_EQ(status["loss"], 0.5);
  EXPECT_DOUBLE_EQ(status["samples_per_s"], 640);
  EXPECT_TRUE(status["accuracy"].is_null());
  ASSERT_EQ(status["workers"].size(), 2u);
  const json& worker = status["workers"][1];
  EXPECT_EQ(worker["rank"], 1);
  EXPECT_EQ(worker["host"], "node1");
  EXPECT_EQ(worker["state"], "training");
  EXPECT_EQ(worker["lag_steps"], 2);
  EXPECT_DOUBLE_EQ(worker["samples_per_s"], 320);
  EXPECT_EQ(status["servers"].size(), 1u);
}

// The steps of a checkpoint took no time in this run.
TEST_F(StatusBoardTest, TheSpeedIsThatOfStepsOfThisRun) {
  const auto resumed = [](uint64_t step, bool is_joining = false) {
    WorkerObservation worker = Training(step);
    worker.counters.set_from_step(60);
    worker.is_joining = is_joining;
    return worker;
  };
  Update({}, seconds(50), "gathering");
  Update({resumed(60), resumed(60)}, seconds(100));
  Update({resumed(64), resumed(64)}, seconds(102));
  EXPECT_DOUBLE_EQ(Json(seconds(102))["steps_per_s"], 2);
  EXPECT_DOUBLE_EQ(Json(seconds(102))["left_s"], 18);
  // The job goes back: until it trains again, its step is the old one.
  beginning_ = 2;
  Update({resumed(64, true), resumed(64, true)}, seconds(103));
  Update({resumed(61), resumed(61)}, seconds(104));
  Update({resumed(62), resumed(62)}, seconds(106));
  EXPECT_DOUBLE_EQ(Json(seconds(106))["steps_per_s"], 0.5);
}

TEST_F(StatusBoardTest, AWorkerThatSaysNothingIsSilentForLongerAtEachLook) {
  WorkerObservation silent = Training(10);
  silent.state = "silent";
  silent.silent = seconds(2);
  Update({Training(10), silent}, seconds(100));
  EXPECT_DOUBLE_EQ(Json(seconds(100))["workers"][1]["silent_s"], 2);
  EXPECT_DOUBLE_EQ(Json(seconds(101))["workers"][1]["silent_s"], 3);
  EXPECT_EQ(Json(seconds(101))["workers"][1]["state"], "silent");
}

TEST_F(StatusBoardTest, AbsentWorkersAndUnknownValuesAreNull) {
  Update({}, seconds(1), "gathering");
  const json status = Json(seconds(1));
  EXPECT_EQ(status["workers"][0]["state"], "absent");
  for (const char* key : {"silent_s", "loss", "computing", "up_bytes_per_step", "round_trip_s"})
    EXPECT_TRUE(status["workers"][0][key].is_null()) << key;
  for (const char* key : {"left_s", "loss", "accuracy", "up_ratio"})
    EXPECT_TRUE(status[key].is_null()) << key;
}

TEST_F(StatusBoardTest, ALossThatIsNotFiniteIsNotShown) {
  WorkerObservation worker = Training(10);
  worker.counters.set_loss(std::numeric_limits<double>::quiet_NaN());
  Update({worker}, seconds(1));
  EXPECT_TRUE(Json(seconds(1))["loss"].is_null());
  EXPECT_TRUE(Json(seconds(1))["workers"][0]["loss"].is_null());
  EXPECT_TRUE(Json(seconds(1))["history"]["losses"].empty());
}

TEST_F(StatusBoardTest, KeepsTheCurveOfLossesAndEvaluations) {
  for (uint64_t step = 1; step <= 90; ++step)
    Update({Training(step), Training(step)}, seconds(step));
  SendTest(51, 20, protocol::kCompare);
  EXPECT_TRUE(Json(seconds(90))["accuracy"].is_null()) << "a comparison is no evaluation";
  SendTest(51, 20, protocol::kEvaluate);
  SendTest(51, 20, protocol::kEvaluate);  // to the other worker
  SendTest(91, 40, protocol::kEvaluate);
  Update({Training(90), Training(90)}, seconds(91));
  const json status = Json(seconds(91));
  EXPECT_EQ(status["history"]["losses"].size(), 90u);
  EXPECT_EQ(status["history"]["tests"], json::parse("[[50, 0.4, 0.5], [90, 0.8, 0.5]]"));
  EXPECT_DOUBLE_EQ(status["accuracy"], 0.8);
  EXPECT_EQ(status["tested_step"], 90);
}

TEST_F(StatusBoardTest, AJobThatWentBackIsEvaluatedAgain) {
  Update({Training(90), Training(90)}, seconds(1));
  SendTest(81, 40, protocol::kEvaluate);
  beginning_ = 2;
  Update({Training(10), Training(10)}, seconds(2));
  SendTest(11, 10, protocol::kEvaluate);
  Update({Training(11), Training(11)}, seconds(3));
  EXPECT_EQ(Json(seconds(3))["history"]["tests"], json::parse("[[10, 0.2, 0.5]]"));
  EXPECT_EQ(Json(seconds(3))["step"], 11);
}

TEST_F(StatusBoardTest, HostileFiguresHaveNoEffect) {
  pb::Envelope head;
  head.mutable_all_figures()->set_chunk(protocol::kEvaluate);
  head.mutable_all_figures()->mutable_of_round()->set_round(5);
  board_.OnSent(head, Bytes::Own(std::string("\xff\xff\xff")));
  Update({Training(9)}, seconds(1));
  EXPECT_TRUE(Json(seconds(1))["accuracy"].is_null());
}

TEST_F(StatusBoardTest, NamesTheCheckpointThatAllWorkersHave) {
  WorkerObservation ahead = Training(60), behind = Training(60);
  ahead.counters.set_checkpoint_step(50);
  ahead.counters.set_checkpoint_age_s(1);
  behind.counters.set_checkpoint_step(40);
  behind.counters.set_checkpoint_age_s(3);
  behind.counters.set_failed_checkpoints(3);
  Update({ahead, behind}, seconds(10));
  json saved = Json(seconds(12))["checkpoints"];
  EXPECT_EQ(saved["step"], 40);
  EXPECT_DOUBLE_EQ(saved["age_s"], 5);
  EXPECT_EQ(saved["failed"], 3);
  for (const double hostile : {std::numeric_limits<double>::quiet_NaN(), 1e300, -5.0}) {
    behind.counters.set_checkpoint_age_s(hostile);
    Update({ahead, behind}, seconds(15));
    EXPECT_DOUBLE_EQ(Json(seconds(15))["checkpoints"]["age_s"], 8);
  }
  behind.counters.set_checkpoint_step(50);
  ahead.counters.set_checkpoint_age_s(0);
  behind.counters.set_checkpoint_age_s(0);
  Update({ahead, behind}, seconds(20));
  saved = Json(seconds(20))["checkpoints"];
  EXPECT_EQ(saved["step"], 50);
  EXPECT_DOUBLE_EQ(saved["age_s"], 0);
}

TEST_F(StatusBoardTest, TheAgeOfACheckpointFromAnEarlierRunIsNotKnown) {
  WorkerObservation resumed = Training(60);
  resumed.counters.set_from_step(50);
  Update({resumed, resumed}, seconds(10));
  EXPECT_EQ(Json(seconds(10))["checkpoints"]["step"], 50);
  EXPECT_TRUE(Json(seconds(10))["checkpoints"]["age_s"].is_null());
}

TEST_F(StatusBoardTest, KeepsTheLastFiftyEvents) {
  for (int i = 0; i < 60; ++i) board_.AddEvent("event " + std::to_string(i));
  board_.AddEvent("event 59");
  board_.AddEvent(std::string(10000, 'x'));
  Update({}, seconds(1));
  const json events = Json(seconds(1))["events"];
  ASSERT_EQ(events.size(), StatusBoard::kMaxEvents);
  EXPECT_EQ(events[0]["text"], "event 11");
  EXPECT_EQ(events[48]["text"], "event 59");
  EXPECT_EQ(events[48]["times"], 2);
  EXPECT_LT(events[49]["text"].get<std::string>().size(), 500u);
}

// Whatever a worker calls itself, the answer is JSON with that text in it and nothing else.
TEST_F(StatusBoardTest, HostileNamesStayText) {
  const std::string host = "<script>alert(1)</script>\"},\xff\n";
  Update({Training(1, host)}, seconds(1));
  const std::string text = StatusJson(*setup_, *board_.status(), seconds(1));
  EXPECT_THAT(json::parse(text)["workers"][0]["host"].get<std::string>(),
              HasSubstr("<script>alert(1)</script>\"},"));
}

TEST_F(StatusBoardTest, ServesThePageTheStatusAndWhoIsMissing) {
  net::HttpRoutes routes;
  AddStatusRoutes(*setup_, board_, &routes);
  EXPECT_THAT(routes["/"]().body, AllOf(HasSubstr("<!DOCTYPE html>"), HasSubstr("page.js")));
  EXPECT_EQ(routes["/"]().content_type, "text/html; charset=utf-8");
  EXPECT_EQ(routes["/page.js"]().content_type, "text/javascript; charset=utf-8");
  // The policy that the HTTP server sends forbids both, so the page would not work with them.
  EXPECT_THAT(routes["/"]().body, AllOf(Not(HasSubstr("style=")), Not(HasSubstr("http"))));
  EXPECT_THAT(routes["/page.js"]().body, Not(HasSubstr("innerHTML")));
  EXPECT_EQ(json::parse(routes["/status.json"]().body)["job"]["name"], "small");

  WorkerObservation waiting = Training(0);
  waiting.state = "waiting";
  Update({waiting}, Now(), "gathering");
  EXPECT_EQ(WaitingFor(*board_.status()), "worker 1");
  Update({Training(1), Training(1)}, Now());
  EXPECT_EQ(WaitingFor(*board_.status()), "");
}

// A new process of a worker counts its bytes from 0.
TEST_F(StatusBoardTest, BytesOfAWorkerOnlyGrow) {
  Registry registry;
  StatusMetrics metrics(registry, 1, setup_->job);
  JobStatus status;
  status.workers.resize(1);
  for (const auto& [up, down] : {std::pair{100, 900}, {150, 900}, {20, 30}}) {
    status.workers[0].up_bytes = up;
    status.workers[0].down_bytes = down;
    metrics.Update(status);
  }
  const std::string series = "\ntern_job_worker_bytes_total{rank=\"0\",direction=";
  EXPECT_THAT(registry.PrometheusText(),
              AllOf(HasSubstr(series + "\"up\"} 170\n"), HasSubstr(series + "\"down\"} 930\n")));
}

TEST_F(StatusBoardTest, MetricsAppearWhenTheyAreKnown) {
  Registry registry;
  StatusMetrics metrics(registry, 2, setup_->job);
  Update({Training(10), Training(8)}, seconds(1));
  metrics.Update(*board_.status());
  EXPECT_THAT(registry.PrometheusText(),
              AllOf(HasSubstr("\ntern_job_steps 10\n"), HasSubstr("\ntern_job_target_steps 100\n"),
                    HasSubstr("\ntern_job_worker_lag_steps{rank=\"1\"} 2\n"),
                    HasSubstr("\ntern_server_workers_present 2\n"),
                    Not(HasSubstr("tern_job_test_accuracy")), Not(HasSubstr("checkpoint_age"))));
  WorkerObservation lost = Training(8);
  lost.state = "lost";
  lost.is_present = false;
  WorkerObservation with_checkpoint = Training(40);
  with_checkpoint.counters.set_checkpoint_step(20);
  with_checkpoint.counters.set_checkpoint_age_s(0);
  SendTest(31, 25, protocol::kEvaluate);
  Update({with_checkpoint, lost}, seconds(2));
  metrics.Update(*board_.status());
  EXPECT_THAT(registry.PrometheusText(), AllOf(HasSubstr("\ntern_job_test_accuracy 0.5\n"),
                                               HasSubstr("\ntern_job_test_loss 0.5\n"),
                                               HasSubstr("\ntern_job_checkpoint_step 20\n"),
                                               HasSubstr("\ntern_job_checkpoint_age_seconds 0\n"),
                                               HasSubstr("\ntern_server_workers_present 1\n")));
}

// The metrics of worker 1 and of the number of workers, where worker 1 has been in this state and
// silent for 5 s, 8 steps behind.
std::string MetricsWithout(const std::string& state, const std::vector<std::string>& keys,
                           const std::string& job_state = "running") {
  Registry registry;
  StatusMetrics metrics(registry, 2, setup::SmallSetup(keys)->job);
  JobStatus status;
  status.state = job_state;
  status.workers.resize(2);
  status.workers[0].state = "training";
  status.workers[1].state = state;
  status.workers[1].silent_s = 5;
  status.workers[1].lag_steps = 8;
  metrics.Update(status);
  return registry.PrometheusText();
}

constexpr const char* kSilent = "\ntern_job_worker_silent_seconds{rank=\"1\"} 5\n";
constexpr const char* kNotSilent = "\ntern_job_worker_silent_seconds{rank=\"1\"} 0\n";
constexpr const char* kLags = "\ntern_job_worker_lag_steps{rank=\"1\"} 8\n";
constexpr const char* kLagsNot = "\ntern_job_worker_lag_steps{rank=\"1\"} 0\n";
constexpr const char* kNeedsBoth = "\ntern_job_workers_needed 2\n";

TEST(StatusMetrics, OnlyAWorkerThatTheJobMissesIsSilent) {
  for (const char* state : {"left", "done", "absent"})
    EXPECT_THAT(MetricsWithout(state, {}), AllOf(HasSubstr(kNotSilent), HasSubstr(kLagsNot)))
        << state;
  for (const char* state : {"lost", "stuck", "silent", "training"}) {
    EXPECT_THAT(MetricsWithout(state, {"faults.on_worker_loss=wait"}),
                AllOf(HasSubstr(kSilent), HasSubstr(kLags), HasSubstr(kNeedsBoth)))
        << state;
  }
}

TEST(StatusMetrics, AJobThatShrinksMissesNobody) {
  const std::vector<std::string> shrinks = {"faults.on_worker_loss=shrink", "workers.min=1",
                                            "workers.max=4"};
  for (const char* state : {"left", "lost", "stuck"}) {
    EXPECT_THAT(MetricsWithout(state, shrinks), AllOf(HasSubstr(kNotSilent), HasSubstr(kLagsNot),
                                                      HasSubstr("\ntern_job_workers_needed 1\n")))
        << state;
  }
  EXPECT_THAT(MetricsWithout("silent", shrinks), AllOf(HasSubstr(kSilent), HasSubstr(kLags)));
  EXPECT_THAT(MetricsWithout("absent", shrinks, "gathering"), HasSubstr(kNeedsBoth));
}

}  // namespace
}  // namespace tern::server
