// Tests of JobTrace: how the traces of the daemons of a job become one.
#include "tools/run/job_trace.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/atomic_file.h"
#include "common/base/text.h"
#include "setup/command_line.h"

namespace tern::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class JobTraceTest : public testing::Test {
 protected:
  JobTraceTest() : folder_(testing::TempDir() + "tern_job_trace_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << folder_;
  }
  ~JobTraceTest() override { fs::remove_all(folder_); }

  void WriteText(const std::string& role, const std::string& text) const {
    EXPECT_TRUE(WriteFileAtomically(setup::TracePath(folder_, role, 0), text).ok());
  }
  void WritePart(const std::string& role, const std::vector<json>& events,
                 uint64_t num_dropped = 0) const {
    WriteText(role, json({{"droppedEvents", num_dropped}, {"traceEvents", events}}).dump());
  }
  static json Span(const std::string& name, double begin, double duration) {
    return {{"name", name}, {"ph", "X"}, {"ts", begin}, {"dur", duration}};
  }
  // The names and times of the merged events: "step 0.5".
  std::vector<std::string> Merged() const {
    std::vector<std::string> events;
    const Result<std::string> text = ReadWholeFile(folder_ + "/trace.json");
    const json merged = text.ok() ? json::parse(*text, nullptr, false) : json::object();
    if (!merged.contains("traceEvents")) return events;
    for (const json& event : merged["traceEvents"])
      events.push_back(Cat(event["name"].get<std::string>(), " ", event.value("ts", -1.0)));
    return events;
  }
  JobTrace Trace() const { return JobTrace(folder_, 1, 1); }

  std::string folder_;
};

TEST_F(JobTraceTest, BringsTheDaemonsTogether) {
  WritePart("worker", {{{"name", "process_name"}, {"ph", "M"}},
                       Span("forward", 1010, 20),
                       Span("step", 1000.25, 90),
                       Span("step", 1100, 100)});
  WritePart("server", {{{"name", "thread_name"}, {"ph", "M"}},
                       Span("warming up", 900, 50),
                       Span("sum", 1050.5, 10),
                       Span("at the end", 1195, 50),
                       Span("after it", 1201, 50)});
  const JobTrace::Written written = Trace().Merge();
  EXPECT_TRUE(written.status.ok());
  EXPECT_THAT(Merged(), ElementsAre("process_name -1", "thread_name -1", "step 0", "forward 9.75",
                                    "sum 50.25", "step 99.75", "at the end 194.75"));
  EXPECT_THAT(written.sentence, AllOf(HasSubstr(folder_ + "/trace.json"), Not(HasSubstr("lacks")),
                                      Not(HasSubstr("room"))));
  EXPECT_FALSE(fs::exists(setup::TracePath(folder_, "worker", 0)));
  EXPECT_FALSE(fs::exists(setup::TracePath(folder_, "server", 0)));
}

TEST_F(JobTraceTest, SaysWhatIsMissing) {
  WritePart("worker", {Span("step", 5, 1)}, 1234);
  JobTrace::Written written = Trace().Merge();
  EXPECT_THAT(written.sentence,
              AllOf(HasSubstr("it lacks what had no orderly end: server 0"),
                    HasSubstr("1,234 events had no room"), Not(HasSubstr("no worker"))));
  written = Trace().Merge();
  EXPECT_TRUE(written.status.ok());
  EXPECT_THAT(written.sentence,
              AllOf(HasSubstr("worker 0, server 0"), HasSubstr("no worker has recorded a step")));
}

TEST_F(JobTraceTest, TakesNothingFromADamagedFile) {
  const std::string deep(100000, '[');
  for (const std::string& text :
       {std::string("{"), std::string("[]"), deep, std::string(R"({"traceEvents":[]})"),
        std::string(R"({"droppedEvents":0,"traceEvents":[7]})"),
        std::string(R"({"droppedEvents":0,"traceEvents":[{"name":7,"ts":1}]})"),
        std::string(R"({"droppedEvents":0,"traceEvents":[{"name":"step","ts":"soon"}]})"),
        std::string(R"({"droppedEvents":"all","traceEvents":[]})")}) {
    WriteText("server", text);
    WritePart("worker", {Span("step", 5, 1)});
    EXPECT_THAT(Trace().Merge().sentence, HasSubstr("server 0")) << text.substr(0, 80);
    EXPECT_THAT(Merged(), ElementsAre("step 0"));
  }
}

TEST_F(JobTraceTest, RemovesWhatAnEarlierRunLeft) {
  WritePart("worker", {Span("step", 5, 1)});
  WritePart("server", {Span("sum", 5, 1)});
  Trace().Merge();
  WritePart("server", {Span("sum", 5, 1)});
  Trace().RemoveOldFiles();
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(JobTraceTest, SaysWhereItCannotWrite) {
  const JobTrace::Written written = JobTrace(folder_ + "/nowhere", 1, 1).Merge();
  EXPECT_EQ(written.status.code(), Code::kCannotWrite);
  EXPECT_THAT(written.status.message(), HasSubstr("nowhere/trace.json"));
}

}  // namespace
}  // namespace tern::tools
