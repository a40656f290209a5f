// A job of real processes for tests: a folder with a tiny data set, a job file with free ports, and
// the programs that the test starts, stops and waits for. Nothing outlives it; nothing waits for a
// fixed time, only for what is to happen, with a deadline.
//
//   TestJob job({.workers = 2, .steps = 20});
//   TestProgram& server = job.StartServer(0);
//   TestProgram& w0 = job.StartWorker(0);
//   TestProgram& w1 = job.StartWorker(1);
//   EXPECT_EQ(w0.Wait(), 0) << w0.err();
//
// or by the tool: job.StartTern({"run", job.job_file()}).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/run/process.h"

namespace tern::e2e {

// How long tests wait for what should come at once; more than enough for a sanitizer build on a
// busy machine.
constexpr double kPatience = 60;

// `count` images of 28 x 28 with 10 classes that a net can learn (a bright square whose place tells
// the label, in noise), as the pair of IDX files STEM-images-idx3-ubyte and STEM-labels-idx1-ubyte.
// A function of (seed, count).
void WriteIdxPair(const std::string& folder, const std::string& stem, uint32_t count,
                  uint64_t seed);

// Ports of 127.0.0.1 where nobody listens now, all different.
std::vector<uint16_t> FreePorts(size_t count);
// One from which `metrics.port` leads to free ones: of the first servers and workers.
uint16_t FreeMetricsPort();

// The whole answer to GET /metrics at that port of 127.0.0.1; empty where nobody answers.
std::string GetMetrics(uint16_t port);
// The value of the row that begins with `row`, "tern_net_refused_total{fault=\"empty\"}"; -1 if
// there is none.
double MetricOf(const std::string& page, const std::string& row);

// The whole file; empty if there is none.
std::string ReadFile(const std::string& path);

// Calls `done` until it is true; false at the deadline. For what no descriptor tells of.
bool WaitUntil(const std::function<bool()>& done, double seconds = kPatience);

// tern, tern_server or tern_worker, in a process group of its own. Killed at the end.
class TestProgram {
 public:
  explicit TestProgram(const tools::ProcessSpec& spec);

  bool started() const { return process_ != nullptr; }  // else the test has failed
  pid_t pid() const;
  bool running();
  void Signal(int signal);
  // Its exit code, or 128 + n where signal n killed it. At the deadline it is killed and the test
  // fails: -1.
  int Wait(double seconds = kPatience);
  // What it wrote so far.
  std::string out() const { return ReadFile(spec_.stdout_path); }
  std::string err() const { return ReadFile(spec_.stderr_path); }
  // Until stdout (stderr) holds `text`. False, and the test fails: the deadline, or it ended
  // without.
  bool WaitForOut(const std::string& text, double seconds = kPatience) {
    return WaitFor(spec_.stdout_path, text, seconds);
  }
  bool WaitForErr(const std::string& text, double seconds = kPatience) {
    return WaitFor(spec_.stderr_path, text, seconds);
  }

 private:
  bool WaitFor(const std::string& path, const std::string& text, double seconds);

  const tools::ProcessSpec spec_;
  std::unique_ptr<tools::Process> process_;
};

struct JobOptions {
  uint32_t servers = 1;
  uint32_t workers = 2;
  uint64_t steps = 20;
  uint32_t batch_total = 8;
  uint64_t seed = 1;
  uint32_t train_images = 240, test_images = 60;
  std::string host = "127.0.0.1";       // of the servers
  std::string model = "{name: lenet}";  // YAML
  std::string yaml = {};  // further top-level keys: "faults: {on_worker_loss: wait}\n"
};

// A job that only a test ends.
inline JobOptions Endless(const std::string& yaml = "") {
  JobOptions options;
  options.steps = 1'000'000;
  options.yaml = yaml;
  return options;
}

class TestJob {
 public:
  explicit TestJob(const JobOptions& options = {});
  ~TestJob();  // kills all programs and removes the folder; a failed test shows the ends of all
               // logs first
  TestJob(const TestJob&) = delete;
  TestJob& operator=(const TestJob&) = delete;

  const std::string& folder() const { return folder_; }
  std::string job_file() const { return folder_ + "/job.yaml"; }
  std::string data_dir() const { return folder_ + "/data"; }
  std::string output_dir() const { return folder_ + "/out"; }
  std::string log_dir() const { return output_dir() + "/logs"; }
  uint16_t port(uint32_t shard) const { return ports_[shard]; }

  // A daemon as a person would start it: --job, --rank, --log_dir, then `more`. The references stay
  // good. A second one of a rank is another program beside the first.
  TestProgram& StartServer(uint32_t shard, const std::vector<std::string>& more = {});
  // Another `program` than bin/tern_worker, where there is one.
  TestProgram& StartWorker(uint32_t rank, const std::vector<std::string>& more = {},
                           const std::string& program = {});
  // All servers, then all workers.
  void StartAll(const std::vector<std::string>& more = {});
  // The newest process of a rank that was started here.
  TestProgram& server(uint32_t shard) { return *servers_.at(shard); }
  TestProgram& worker(uint32_t rank) { return *workers_.at(rank); }
  // Waits for the newest process of each rank; the test fails where one ends with another code.
  void ExpectAllEnd(int code, double seconds = kPatience);
  // bin/tern with these words.
  TestProgram& StartTern(const std::vector<std::string>& words);
  // Any program, for the rest.
  TestProgram& Start(const std::string& name, const std::string& path,
                     const std::vector<std::string>& words);

  // The newest progress of shard 0 as started by StartServer(0), a JSON object; null before the
  // first.
  nlohmann::json Progress() const;
  // Until shard 0, started by StartServer(0), has heard that every worker applied `round`. False,
  // and the test fails: the deadline.
  bool WaitForRound(uint64_t round, double seconds = kPatience);
  // Until every worker has begun to train, however it was started.
  bool WaitForTraining(double seconds = kPatience);
  // The process that `tern run` said it started as `name` ("worker 1"), the newest if it was more;
  // 0 if none.
  static pid_t PidOf(const TestProgram& tern, const std::string& name);

  // A file of output_dir as JSON; null, and the test fails, if it is none: Output("server.0.json").
  nlohmann::json Output(const std::string& name) const;
  std::string OutputBytes(const std::string& name) const {
    return ReadFile(output_dir() + "/" + name);
  }
  // The bytes of the final weights; the test fails if there are none.
  std::string Weights() const;
  // All of a daemon's log (of all processes of that rank): Log("worker", 1).
  std::string Log(const std::string& role, uint32_t rank) const;
  // Until that log holds `text`. False, and the test fails: the deadline.
  bool WaitForLog(const std::string& role, uint32_t rank, const std::string& text,
                  double seconds = kPatience) const;

  // The build's folder of programs, and one of them.
  static std::string BinDir();
  static std::string Binary(const std::string& name) { return BinDir() + "/" + name; }

 private:
  TestProgram& StartDaemon(const std::string& role, uint32_t rank,
                           const std::vector<std::string>& more, int fd,
                           const std::string& program = {});
  void WriteJob() const;

  const JobOptions options_;
  std::string folder_;
  std::vector<uint16_t> ports_;
  int progress_fd_ = -1;  // of the file that shard 0 writes its progress to
  std::vector<std::unique_ptr<TestProgram>> programs_;
  std::map<uint32_t, TestProgram*> servers_, workers_;  // by rank
};

}  // namespace tern::e2e
