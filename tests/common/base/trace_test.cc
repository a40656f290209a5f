// Tests of the recorder of traces: what the written file has of spans and flights, when
// recording is on, and how much it keeps.
#include "common/base/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/base/atomic_file.h"
#include "common/base/threads.h"

namespace tern {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TraceTest : public testing::Test {
 protected:
  void Arm(size_t max_events = 100) {
    ArmTrace({.steps = 5, .path = path_, .process = "worker 3", .id = 4, .max_events = max_events});
  }
  ~TraceTest() override {
    ArmTrace({});
    std::filesystem::remove(path_);
  }
  // Writes the file, and returns what it has.
  json Write() {
    const Status status = WriteTrace();
    EXPECT_TRUE(status.ok()) << status.message();
    const Result<std::string> text = ReadWholeFile(path_);
    return text.ok() ? json::parse(*text, nullptr, false) : json();
  }
  // The events of this kind ("X": spans) as "NAME".
  static std::vector<std::string> NamesOf(const json& trace, const std::string& kind) {
    std::vector<std::string> names;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] == kind) names.push_back(event["name"]);
    }
    return names;
  }

  const std::string path_ = testing::TempDir() + "tern_trace_test.json";
};

TEST_F(TraceTest, WritesWhatAThreadDid) {
  Arm();
  const Time before = Now();
  {
    const TraceThread thread("compute");
    SetTracing(true);
    const Time begin = TraceBegin();
    {
      const TraceSpan step("step", {.step = 7});
      const TraceSpan forward("forward");
    }
    RecordFlight("wire", begin, {.round = 7, .bucket = 2, .chunk = 1, .rank = 0});
    RecordSpan("receive", begin, {.round = 8});
  }
  const Time after = Now();
  const json trace = Write();
  EXPECT_EQ(trace["droppedEvents"], 0);
  EXPECT_THAT(NamesOf(trace, "X"), ElementsAre("forward", "step", "receive"));
  EXPECT_THAT(NamesOf(trace, "M"), ElementsAre("process_name", "thread_name"));
  std::optional<json> step, forward, flight_begin, flight_end;
  for (const json& event : trace["traceEvents"]) {
    EXPECT_EQ(event["pid"], 4);
    if (event["ph"] == "M") continue;
    EXPECT_GE(event["ts"].get<double>(), static_cast<double>(before.count()) / 1000 - 0.001);
    EXPECT_LE(event["ts"].get<double>(), static_cast<double>(after.count()) / 1000 + 0.001);
    if (event["name"] == "step") step = event;
    if (event["name"] == "forward") forward = event;
    if (event["ph"] == "b") flight_begin = event;
    if (event["ph"] == "e") flight_end = event;
  }
  ASSERT_TRUE(step.has_value() && forward.has_value());
  EXPECT_EQ((*step)["args"], json({{"step", 7}}));
  const auto end_of = [](const json& span) {
    return span["ts"].get<double>() + span["dur"].get<double>();
  };
  EXPECT_LE((*step)["ts"], (*forward)["ts"]);
  EXPECT_GE(end_of(*step), end_of(*forward) - 1e-3);
  ASSERT_TRUE(flight_begin.has_value() && flight_end.has_value());
  EXPECT_EQ((*flight_begin)["id"], (*flight_end)["id"]);
  EXPECT_LE((*flight_begin)["ts"], (*flight_end)["ts"]);
  EXPECT_EQ((*flight_begin)["args"],
            json({{"round", 7}, {"bucket", 2}, {"chunk", 1}, {"rank", 0}}));
}

TEST_F(TraceTest, RecordsWhatHasBegunWhileItIsOn) {
  Arm();
  {
    const TraceThread thread("compute");
    { const TraceSpan span("too early"); }
    EXPECT_EQ(TraceBegin(), Time{});
    SetTracing(true);
    std::optional<TraceSpan> span(std::in_place, "begun");
    const Time begin = TraceBegin();
    SetTracing(false);
    span.reset();
    RecordFlight("answered later", begin, {});
    { const TraceSpan late("too late"); }
    SetTracing(true);
    PauseTraceOfThread(true);
    { const TraceSpan paused("paused"); }
    RecordSpan("paused", begin, {});
    PauseTraceOfThread(false);
    Thread other("other", [] { const TraceSpan unknown("without a TraceThread"); });
  }
  const json trace = Write();
  EXPECT_THAT(NamesOf(trace, "X"), ElementsAre("begun"));
  EXPECT_THAT(NamesOf(trace, "b"), ElementsAre("answered later"));
}

TEST_F(TraceTest, KeepsTheFirstEventsOfEachThread) {
  Arm(3);
  SetTracing(true);
  for (const std::string name : {"one", "two"}) {
    Thread thread(name, [&name] {
      const TraceThread traced(name);
      for (int i = 0; i < 5; ++i) {
        const TraceSpan span("work");
      }
    });
  }
  const json trace = Write();
  EXPECT_EQ(trace["droppedEvents"], 4);
  EXPECT_EQ(NamesOf(trace, "X").size(), 6u);
  EXPECT_EQ(NamesOf(trace, "M").size(), 3u);
}

TEST_F(TraceTest, IsOffUnlessArmed) {
  {
    const TraceThread thread("compute");
    SetTracing(true);
    { const TraceSpan span("work"); }
    EXPECT_EQ(TraceBegin(), Time{});
    EXPECT_EQ(TraceSteps(), 0u);
  }
  EXPECT_TRUE(WriteTrace().ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(TraceTest, SaysWhereItCannotWrite) {
  ArmTrace({.steps = 1, .path = "/nowhere/trace.json", .process = "server 0", .id = 1});
  const Status status = WriteTrace();
  EXPECT_EQ(status.code(), Code::kCannotWrite);
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/trace.json"));
}

}  // namespace
}  // namespace tern
