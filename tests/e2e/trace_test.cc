// The trace of a job (`tern run --trace`): one file of all processes on one clock, with every
// algorithm, whose spans add up to the measured steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/algorithm/algorithms.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Le;

// How much of a measured time the spans must add up to, and by how much they may exceed it.
constexpr double kLeastShare = 0.97, kGreatestShare = 1.03;
// Times are written with three decimals of a microsecond.
constexpr double kRounding = 0.0021;

struct Span {
  std::string name;
  double begin = 0, end = 0;  // in microseconds
  json args;
  double duration() const { return end - begin; }
};

// A trace as its readers see it: the spans of "worker 0: compute" in the order of the file, and
// more.
struct Trace {
  std::map<std::string, std::vector<Span>> spans;        // by thread
  std::map<std::string, std::set<std::string>> flights;  // by process: the names
  size_t num_open_flights = 0;                           // that begin and do not end
};

Trace ReadTrace(const json& file) {
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  for (const json& event : file["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name")
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  Trace trace;
  std::map<std::string, double> flights;  // beginnings by id
  double previous_ts = 0;
  for (const json& event : file["traceEvents"]) {
    if (event["ph"] == "M") continue;
    const double ts = event["ts"];
    EXPECT_GE(ts, previous_ts) << "not in the order of time: " << event;
    previous_ts = ts;
    const std::string process = processes.at(event["pid"]);
    const std::string thread = process + ": " + threads.at({event["pid"], event["tid"]});
    if (event["ph"] == "X") {
      EXPECT_GE(event["dur"], 0) << event;
      trace.spans[thread].push_back(
          {event["name"], ts, ts + event["dur"].get<double>(), event["args"]});
    } else if (event["ph"] == "b") {
      trace.flights[process].insert(event["name"]);
      EXPECT_TRUE(flights.emplace(event["id"], ts).second) << event;
    } else {
      EXPECT_EQ(event["ph"], "e") << event;
      EXPECT_EQ(flights.erase(event["id"]), 1u) << event;
    }
  }
  trace.num_open_flights = flights.size();
  return trace;
}

std::set<std::string> NamesOf(const std::vector<Span>& spans) {
  std::set<std::string> names;
  for (const Span& span : spans) names.insert(span.name);
  return names;
}

// Expects that two spans of a thread are apart, or one is within the other.
void ExpectNesting(const std::vector<Span>& spans, const std::string& thread) {
  std::vector<Span> open;
  for (const Span& span : spans) {  // in the order of their beginnings
    while (!open.empty() && open.back().end <= span.begin + kRounding) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(span.end, open.back().end + kRounding)
          << thread << ": " << span.name << " outlasts " << open.back().name;
    }
    open.push_back(span);
  }
}

std::vector<Span> StepsOf(const std::vector<Span>& spans) {
  std::vector<Span> steps;
  std::copy_if(spans.begin(), spans.end(), std::back_inserter(steps),
               [](const Span& span) { return span.name == "step"; });
  return steps;
}

double TotalOf(const std::vector<Span>& spans) {
  double total = 0;
  for (const Span& span : spans) total += span.duration();
  return total;
}

// The time within `steps` in which the thread was in some other span, waiting included.
double TimeInPartsOf(const std::vector<Span>& steps, const std::vector<Span>& spans) {
  double covered = 0;
  for (const Span& step : steps) {
    double covered_until = step.begin;
    for (const Span& span : spans) {
      if (span.name == "step" || span.begin < step.begin || span.end > step.end + kRounding)
        continue;
      covered += std::max(0.0, span.end - std::max(span.begin, covered_until));
      covered_until = std::max(covered_until, span.end);
    }
  }
  return covered;
}

// Expects that a worker's compute thread has steps from number `first` on, and that the spans in
// them account for their time.
void ExpectStepsAddUp(const std::vector<Span>& spans, uint64_t first) {
  const std::vector<Span> steps = StepsOf(spans);
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i].args["step"], first + i);
  const double parts = TimeInPartsOf(steps, spans), total = TotalOf(steps);
  EXPECT_THAT(parts / total, AllOf(Ge(kLeastShare), Le(1 + 1e-6)));
}

std::vector<std::string> RunArguments(const TestJob& job, const std::string& steps,
                                      const std::vector<std::string>& settings) {
  std::vector<std::string> arguments = {"run", job.job_file(), "--trace", steps};
  for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
  return arguments;
}

TEST(Trace, ShowsAStepFromThePassesToTheSums) {
  TestJob job({.servers = 2, .steps = 40});
  TestProgram& tern =
      job.StartTern(RunArguments(job, "15",
                                 {"exchange.codec=ternary", "exchange.scaler=shared",
                                  "exchange.bucket_kib=256", "exchange.chunk_kib=64"}));
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(),
              HasSubstr("the trace is in " + job.output_dir() + "/trace.json; open it"));
  const Trace trace = ReadTrace(job.Output("trace.json"));
  for (const auto& [thread, spans] : trace.spans) ExpectNesting(spans, thread);
  for (const std::string worker : {"worker 0", "worker 1"}) {
    const std::vector<Span>& compute = trace.spans.at(worker + ": compute");
    ASSERT_EQ(StepsOf(compute).size(), 15u);
    ExpectStepsAddUp(compute, 11);
    EXPECT_THAT(NamesOf(compute),
                ElementsAre("backward", "bucket ready", "decode, update", "end of round", "forward",
                            "step", "wait for samples", "wait for servers"));
    EXPECT_THAT(NamesOf(trace.spans.at(worker + ": coder")), ElementsAre("encode", "statistics"));
    EXPECT_THAT(trace.flights.at(worker), ElementsAre("wire", "wire, scalers"));
  }
  for (const std::string server : {"server 0", "server 1"}) {
    EXPECT_THAT(NamesOf(trace.spans.at(server + ": lane 1")),
                ElementsAre("close of round", "receive", "send", "sum"));
  }
  EXPECT_THAT(NamesOf(trace.spans.at("server 0: control")), ElementsAre("receive", "send", "sum"));
  EXPECT_EQ(trace.num_open_flights, 0u);
}

// One clock: a server receives a push after the worker has begun to encode it, and closes the round
// before the worker decodes the sum.
TEST(Trace, HasOneClock) {
  TestJob job({.steps = 30});
  TestProgram& tern = job.StartTern(RunArguments(job, "10", {"exchange.codec=fp32"}));
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  const Trace trace = ReadTrace(job.Output("trace.json"));
  std::map<std::pair<uint64_t, int>, double> encoded_from, decoded_from;  // of worker 1
  const auto key = [](const Span& span) {
    return std::pair<uint64_t, int>(span.args["round"], span.args["bucket"]);
  };
  for (const Span& span : trace.spans.at("worker 1: coder"))
    if (span.name == "encode") encoded_from[key(span)] = span.begin;
  for (const Span& span : trace.spans.at("worker 1: compute"))
    if (span.name == "decode, update") decoded_from[key(span)] = span.begin;
  size_t num_compared = 0;
  for (const Span& span : trace.spans.at("server 0: lane 1")) {
    if (span.name == "receive" && span.args["rank"] == 1 && encoded_from.contains(key(span))) {
      EXPECT_GE(span.end, encoded_from[key(span)]);
      ++num_compared;
    }
    if (span.name == "close of round" && decoded_from.contains(key(span))) {
      EXPECT_LE(span.end, decoded_from[key(span)]);
      ++num_compared;
    }
  }
  EXPECT_GE(num_compared, 2u * 9);
}

// The worker's counter of its training time is independent of the trace. It includes the wait for
// the last round.
TEST(Trace, AddsUpToTheMeasuredTime) {
  TestJob job({.steps = 300});
  TestProgram& tern = job.StartTern(RunArguments(job, "300", {}));
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  const Trace trace = ReadTrace(job.Output("trace.json"));
  for (const std::string rank : {"0", "1"}) {
    const std::vector<Span>& compute = trace.spans.at("worker " + rank + ": compute");
    ASSERT_EQ(StepsOf(compute).size(), 300u);
    ExpectStepsAddUp(compute, 1);
    const double measured_us =
        job.Output("worker." + rank + ".json")["train_s"].get<double>() * 1e6;
    EXPECT_THAT(TimeInPartsOf(StepsOf(compute), compute) / measured_us,
                AllOf(Ge(kLeastShare), Le(kGreatestShare)));
  }
}

struct TracedCase {
  std::string name;
  bool has_rounds;
  std::vector<std::string> settings;
};
std::ostream& operator<<(std::ostream& out, const TracedCase& c) { return out << c.name; }

// Every algorithm, and every place of the parameters that it supports.
std::vector<TracedCase> TracedCases() {
  std::vector<TracedCase> cases;
  for (const std::string& name : algorithm::AlgorithmNames()) {
    pb::Train train;
    train.set_algorithm(name);
    for (const int place : algorithm::TraitsOf(train)->holding()) {
      const std::string place_name = pb::Train::Parameters_Name(place);
      cases.push_back({name + "_" + place_name,
                       algorithm::TraitsOf(train)->closes() == pb::AlgorithmTraits::all_come,
                       {"train.algorithm=" + name, "train.parameters=" + place_name,
                        "exchange.codec=fp32", "train.optimizer.name=sgd"}});
    }
  }
  return cases;
}

class TracedAlgorithms : public testing::TestWithParam<TracedCase> {};

// Without rounds a slow worker makes few steps, so all of them are recorded.
TEST_P(TracedAlgorithms, AddUp) {
  const bool has_rounds = GetParam().has_rounds;
  TestJob job({.steps = 40});
  TestProgram& tern =
      job.StartTern(RunArguments(job, has_rounds ? "25" : "100", GetParam().settings));
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  const Trace trace = ReadTrace(job.Output("trace.json"));
  for (const auto& [thread, spans] : trace.spans) ExpectNesting(spans, thread);
  for (const std::string worker : {"worker 0", "worker 1"}) {
    const std::vector<Span>& compute = trace.spans.at(worker + ": compute");
    if (has_rounds) {
      ASSERT_EQ(StepsOf(compute).size(), 25u);
    } else {
      ASSERT_GE(StepsOf(compute).size(), 1u);
    }
    ExpectStepsAddUp(compute, has_rounds ? 11 : 1);
    EXPECT_THAT(NamesOf(compute), IsSupersetOf({"forward", "backward", "step"}));
    EXPECT_THAT(trace.flights.at(worker), testing::Contains("wire"));
  }
  EXPECT_THAT(NamesOf(trace.spans.at("server 0: lane 1")),
              IsSupersetOf({"receive", "send", "sum"}));
}
INSTANTIATE_TEST_SUITE_P(Fp32, TracedAlgorithms, testing::ValuesIn(TracedCases()),
                         [](const testing::TestParamInfo<TracedCase>& info) {
                           return info.param.name;
                         });

TEST(Trace, NamesAProcessThatLeftNone) {
  TestJob job({.steps = 40, .yaml = "faults: {on_worker_loss: shrink}\n"});
  std::vector<std::string> arguments = RunArguments(job, "10", {});
  arguments.insert(arguments.end(), {"--fail", "worker.1:thread.compute=die@step:15"});
  TestProgram& tern = job.StartTern(arguments);
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), HasSubstr("it lacks what had no orderly end: worker 1"));
  EXPECT_THAT(StepsOf(ReadTrace(job.Output("trace.json")).spans.at("worker 0: compute")),
              testing::SizeIs(10));
}

TEST(Trace, IsNotWrittenUnlessAskedFor) {
  TestJob job({.steps = 5});
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_EQ(job.OutputBytes("trace.json"), "");
  EXPECT_EQ(job.OutputBytes("trace.worker.0.json"), "");
}

// Daemons that a user has started leave a file each.
TEST(Trace, OfADaemonIsAFileOfItsOwn) {
  TestJob job({.steps = 20});
  job.StartAll({"--trace", "5"});
  job.ExpectAllEnd(0);
  size_t num_steps = 0;
  const json file = job.Output("trace.worker.1.json");
  for (const json& event : file["traceEvents"]) num_steps += event["name"] == "step";
  EXPECT_EQ(num_steps, 5u);
  EXPECT_THAT(job.OutputBytes("trace.server.0.json"), HasSubstr("\"close of round\""));
  TestProgram& tern = job.StartTern({"run", job.job_file(), "--trace", "1001"});
  EXPECT_EQ(tern.Wait(), 64);
  EXPECT_THAT(tern.err(), HasSubstr("--trace"));
}

}  // namespace
}  // namespace tern::e2e
