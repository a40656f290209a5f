// Tests of LaneTrace: which messages of workers a server shows in a trace.
#include "server/lane_trace.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/atomic_file.h"
#include "common/base/text.h"

namespace tern::server {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

pb::Envelope PushOf(uint32_t rank, uint64_t round) {
  pb::Envelope envelope;
  pb::Contribution* const push = envelope.mutable_push();
  push->set_rank(rank);
  push->set_bucket(1);
  push->mutable_in_round()->set_round(round);
  return envelope;
}

class OneSum : public protocol::CellSum {
 public:
  Status Add(uint32_t, const Bytes&) override { return Ok(); }
  Bytes Close() override { return Bytes::Own("the sum"); }
};

class LaneTraceTest : public testing::Test {
 protected:
  LaneTraceTest() { ArmTrace({.steps = 2, .path = path_, .process = "server 0", .id = 9}); }
  ~LaneTraceTest() override {
    PauseTraceOfThread(false);
    ArmTrace({});
    std::filesystem::remove(path_);
  }
  // The spans as "NAME rank ROUND".
  std::vector<std::string> Write() {
    EXPECT_TRUE(WriteTrace().ok());
    const Result<std::string> text = ReadWholeFile(path_);
    std::vector<std::string> spans;
    if (!text.ok()) return spans;
    const json trace = json::parse(*text);
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      spans.push_back(Cat(event["name"].get<std::string>(), " ", event["args"].value("rank", -1),
                          " ", event["args"].value("round", 0)));
    }
    return spans;
  }

  const std::string path_ = testing::TempDir() + "tern_lane_trace_test.json";
};

TEST_F(LaneTraceTest, RecordsTheFirstExchangesOfEachWorker) {
  {
    const TraceThread thread("lane 1");
    SetTracing(true);
    LaneTrace trace(2);
    const auto receive = [&](const pb::Envelope& head) {
      trace.OnReceived(TraceBegin(), head);
      const TraceSpan span("sum", trace.args());
    };
    // 2 steps after 10 steps of warming up: 12 rounds, here from 101 on.
    receive(PushOf(0, 101));
    receive(PushOf(0, 112));
    receive(PushOf(0, 113));
    receive(PushOf(1, 5));    // a worker that is slow, in a job without rounds
    receive(PushOf(7, 101));  // no rank of this job
    pb::Envelope figures;
    figures.mutable_figures()->set_rank(1);
    receive(figures);
    pb::Envelope heartbeat;
    heartbeat.mutable_heartbeat();
    receive(heartbeat);
    receive(PushOf(1, 6));
  }
  EXPECT_THAT(Write(), ElementsAre("receive 0 101", "sum 0 101", "receive 0 112", "sum 0 112",
                                   "receive 1 5", "sum 1 5", "receive 1 6", "sum 1 6"));
}

TEST_F(LaneTraceTest, ShowsWhenARoundCloses) {
  std::vector<protocol::CellSpec> cells(1);
  cells[0].open = [](uint64_t) { return std::make_unique<OneSum>(); };
  TraceCloses(&cells);
  {
    const TraceThread thread("lane 1");
    SetTracing(true);
    const auto sum = cells[0].open(17);
    EXPECT_TRUE(sum->Add(0, Bytes()).ok());
    EXPECT_EQ(sum->Close().size(), 7u);
  }
  EXPECT_THAT(Write(), ElementsAre("close of round -1 17"));
}

TEST(LaneTrace, WithoutATraceEverythingStaysAsItWas) {
  LaneTrace trace(1);
  trace.OnReceived(TraceBegin(), PushOf(0, 1));
  EXPECT_EQ(trace.args().rank, -1);
  std::vector<protocol::CellSpec> cells(1);
  TraceCloses(&cells);
  EXPECT_EQ(cells[0].open, nullptr);
}

}  // namespace
}  // namespace tern::server
