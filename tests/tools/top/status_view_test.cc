// Tests of the status of a job as lines for a terminal.
#include "tools/top/status_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tern::tools {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

json Worker(int rank, const std::string& state = "training", double speed = 100) {
  return {{"rank", rank},
          {"host", "node" + std::to_string(rank)},
          {"state", state},
          {"silent_s", 0.25},
          {"step", 120},
          {"lag_steps", 0},
          {"samples_per_s", speed},
          {"loss", 0.5},
          {"computing", 0.5},
          {"coding", 0.125},
          {"waiting", 0.25},
          {"up_bytes_per_step", 64900},
          {"down_bytes_per_step", 160000},
          {"round_trip_s", 0.001}};
}

json Job(const std::vector<json>& workers) {
  return {
      {"job", {{"name", "lenet"}, {"model", "lenet"}, {"algorithm", "ssgd"}, {"codec", "ternary"}}},
      {"state", "running"},
      {"step", 120},
      {"steps", 1000},
      {"left_s", 80},
      {"loss", 0.5},
      {"accuracy", 0.912},
      {"tested_step", 100},
      {"samples_per_s", 400},
      {"up_ratio", 26.9},
      {"down_ratio", 10.7},
      {"workers", workers},
      {"servers", {{{"shard", 0}, {"state", "present"}}}},
      {"checkpoints", {{"step", 100}, {"age_s", 12}, {"failed", 0}}},
      {"events", {{{"text", "older"}}, {{"text", "newer"}}}}};
}

std::vector<std::string> Lines(const json& status, const ViewOptions& options = {}) {
  const auto lines = ViewStatus(status.dump(), options);
  EXPECT_TRUE(lines.ok()) << lines.status().message();
  std::vector<std::string> texts;
  for (const ViewLine& line : *lines) texts.push_back(line.text);
  return texts;
}

TEST(StatusView, FitsInto80Characters) {
  const std::vector<std::string> lines = Lines(Job({Worker(0), Worker(1)}));
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines[0], "lenet  running  step 120 of 1000 (12%)  1m 20s left");
  EXPECT_EQ(lines[1], "loss 0.5  accuracy 91.20 % at step 100  400 samples/s");
  EXPECT_EQ(lines[2], "lenet, ssgd, ternary  26.9x less up, 10.7x less down");
  EXPECT_EQ(lines[3], "checkpoint of step 100, 12.0 s ago");
  EXPECT_EQ(lines[4],
            "rank host       state    silent    step sampl/s comp code wait  up/step     down");
  EXPECT_EQ(lines[5],
            "   0 node0      training  0.2 s     120     100  50%  12%  25%  64.9 KB 160.0 KB");
  EXPECT_EQ(lines[7], "newer");
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u);
}

TEST(StatusView, SaysNothingOfCheckpointsThatThereAreNot) {
  json status = Job({Worker(0)});
  status["checkpoints"] = {{"failed", 0}};
  EXPECT_THAT(Lines(status)[3], StartsWith("rank"));
  status["checkpoints"] = {{"failed", 2}};
  EXPECT_EQ(Lines(status)[3], "2 checkpoints failed");
}

TEST(StatusView, AWiderTerminalShowsMore) {
  EXPECT_THAT(Lines(Job({Worker(0)}))[4], Not(HasSubstr("trip")));
  EXPECT_THAT(Lines(Job({Worker(0)}), {.columns = 120})[4], HasSubstr("trip  behind     loss"));
}

TEST(StatusView, NamesWhoIsMissing) {
  const auto lines = ViewStatus(Job({Worker(0), Worker(1, "silent")}).dump(), {});
  ASSERT_TRUE(lines.ok());
  EXPECT_EQ((*lines)[4].text, "worker 1 is silent, not heard for 0.2 s");
  EXPECT_EQ((*lines)[4].kind, LineKind::kAlarm);
  EXPECT_EQ((*lines)[7].kind, LineKind::kBadRow);
  json status = Job({Worker(0)});
  status["servers"].push_back({{"shard", 1}, {"state", "silent"}});
  EXPECT_EQ(Lines(status)[4], "server shard 1 is silent");
  json gathering = Job({Worker(0, "absent")});
  gathering["state"] = "gathering";
  EXPECT_THAT(Lines(gathering)[4], StartsWith("rank")) << "that is no alarm while the job starts";
}

TEST(StatusView, MissesNobodyButSilentWorkersInAJobThatShrinks) {
  json status = Job({Worker(0), Worker(1, "left"), Worker(2, "absent"), Worker(3, "lost")});
  EXPECT_THAT(Lines(status)[4], StartsWith("worker 1 has left, not heard for"));
  status["job"]["shrinks"] = true;
  EXPECT_THAT(Lines(status)[4], StartsWith("rank"));
  status["workers"].push_back(Worker(4, "silent"));
  EXPECT_EQ(Lines(status)[4], "worker 4 is silent, not heard for 0.2 s");
}

TEST(StatusView, Sorts) {
  const json status =
      Job({Worker(0, "training", 9), Worker(1, "training", 5), Worker(2, "lost", 7)});
  const auto ranks = [&](SortKey key) {
    std::string text;
    for (const std::string& line : Lines(status, {.sort = key}))
      if (line.starts_with("   ")) text += line[3];
    return text;
  };
  EXPECT_EQ(ranks(SortKey::kRank), "012");
  EXPECT_EQ(ranks(SortKey::kState), "201");
  EXPECT_EQ(ranks(SortKey::kSpeed), "120");
}

TEST(StatusView, SaysHowManyWorkersDoNotFit) {
  std::vector<json> workers;
  for (int rank = 0; rank < 100; ++rank) workers.push_back(Worker(rank));
  const std::vector<std::string> lines = Lines(Job(workers), {.rows = 22});
  ASSERT_EQ(lines.size(), 22u);
  EXPECT_EQ(lines.back(), "... and 84 more workers");
  EXPECT_EQ(Lines(Job(workers)).size(), 5 + 100 + 2u) << "without a bound all are shown";
}

TEST(StatusView, HostileTextIsPrintable) {
  json status = Job({Worker(0)});
  status["workers"][0]["host"] = "\x1b[2J\xff\n<b>";
  status["events"] = {{{"text", "\x1b]0;taken\x07"}}, 5, {{"text", 7}}};
  const auto lines = ViewStatus(status.dump(-1, ' ', false, json::error_handler_t::replace), {});
  ASSERT_TRUE(lines.ok());
  for (const ViewLine& line : *lines) {
    for (const char c : line.text) EXPECT_TRUE(c >= ' ' && c <= '~') << line.text;
  }
}

TEST(StatusView, WrongTypesAreUnknown) {
  json status = Job({Worker(0)});
  status["step"] = "many";
  status["workers"][0] = json::array();
  status["workers"].push_back({{"rank", -1e300}, {"silent_s", 1e300}, {"state", 5}});
  status["servers"] = "none";
  status["events"] = {{"a", "b"}};
  EXPECT_EQ(Lines(status).front(), "lenet  running  step -  1m 20s left");
}

TEST(StatusView, RefusesWhatIsNoStatus) {
  for (const std::string text : {"", "{", "[]", "{}", "{\"job\":{},\"workers\":5}", "tern_x 5"})
    EXPECT_EQ(ViewStatus(text, {}).status().code(), Code::kBadData) << text;
  EXPECT_EQ(ViewStatus(std::string(100000, '['), {}).status().code(), Code::kBadData);
}

}  // namespace
}  // namespace tern::tools
