// A job of real processes for tests: a folder with a tiny data set, a job file with free ports, and
// the programs that the test starts, stops and waits for. The destructor of TestJob kills these
// programs. Nothing here waits for a fixed time, only for events, with a deadline. A daemon is a
// tern_server or tern_worker process; its rank is its number among the servers or the workers.
//
//   TestJob job({.workers = 2, .steps = 20});
//   TestProgram& server = job.StartServer(0);
//   TestProgram& w0 = job.StartWorker(0);
//   TestProgram& w1 = job.StartWorker(1);
//   EXPECT_EQ(w0.Wait(), 0) << w0.err();
//
// or with `tern run`: job.StartTern({"run", job.job_file()}).
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

// How long tests wait for an event that should happen soon. This is enough for a sanitizer
// build on a busy machine.
constexpr double kPatienceSeconds = 60;

// Writes `count` images of 28 x 28 with 10 classes that a network can learn (a bright square in
// noise, whose position is the label), as the pair of IDX files STEM-images-idx3-ubyte and
// STEM-labels-idx1-ubyte. Equal arguments give equal files.
void WriteIdxPair(const std::string& folder, const std::string& stem, uint32_t count,
                  uint64_t seed);

// Returns `count` different ports of 127.0.0.1 on which no program listens.
std::vector<uint16_t> FreePorts(size_t count);
// A value for the job's key metrics.port, such that the metrics ports of servers 0 and 1 and of
// workers 0 to 2 are free.
uint16_t FreeMetricsPort();

// The whole answer to GET /metrics at this port of 127.0.0.1, or an empty string if none arrives.
std::string GetMetrics(uint16_t port);
// The value of the metrics line that begins with `row`, for example
// "tern_net_refused_total{fault=\"empty\"}"; -1 if there is none.
double MetricOf(const std::string& page, const std::string& row);

// The contents of a file, or an empty string if it does not exist.
std::string ReadFile(const std::string& path);

// Calls `condition` repeatedly until it returns true. Returns false if that does not happen in
// time.
bool WaitUntil(const std::function<bool()>& condition, double seconds = kPatienceSeconds);

// A running tern, tern_server or tern_worker, in a process group of its own. The destructor kills
// it.
class TestProgram {
 public:
  explicit TestProgram(const tools::ProcessSpec& spec);

  // Whether the program was started. If not, the constructor has made the test fail.
  bool started() const { return process_ != nullptr; }
  pid_t pid() const;
  bool running();
  void Signal(int signal);
  // Waits for the end of the program. Returns its exit code, or 128 + n if signal n killed it. If
  // it does not end in time, kills it, fails the test and returns -1.
  int Wait(double seconds = kPatienceSeconds);
  // What the program has written to stdout (stderr) so far.
  std::string out() const { return ReadFile(spec_.stdout_path); }
  std::string err() const { return ReadFile(spec_.stderr_path); }
  // Waits until stdout (stderr) contains `text`. At the deadline, or if the program ends without
  // having written `text`, fails the test and returns false.
  bool WaitForOut(const std::string& text, double seconds = kPatienceSeconds) {
    return WaitFor(spec_.stdout_path, text, seconds);
  }
  bool WaitForErr(const std::string& text, double seconds = kPatienceSeconds) {
    return WaitFor(spec_.stderr_path, text, seconds);
  }

 private:
  bool WaitFor(const std::string& path, const std::string& text, double seconds);

  const tools::ProcessSpec spec_;
  std::unique_ptr<tools::Process> process_;
};

struct JobOptions {
  uint32_t servers = 1;
  // The keys of `workers`; the job does not set min or max that is 0 here.
  uint32_t workers = 2, min_workers = 0, max_workers = 0;
  uint64_t steps = 20;
  uint32_t batch_total = 8;
  uint64_t seed = 1;
  uint32_t train_images = 240, test_images = 60;
  std::string host = "127.0.0.1";       // where the servers listen
  std::string model = "{name: lenet}";  // the job's key `model`, as YAML
  // Additional top-level keys of the job, for example "faults: {on_worker_loss: wait}\n".
  std::string yaml = {};
};

// Options of a job that runs until the test ends it.
inline JobOptions EndlessJobOptions(const std::string& yaml = "") {
  JobOptions options;
  options.steps = 1'000'000;
  options.yaml = yaml;
  return options;
}

class TestJob {
 public:
  explicit TestJob(const JobOptions& options = {});
  // Kills all programs. Then, if the test has failed, prints the ends of all logs and outputs.
  // Removes the folder.
  ~TestJob();
  TestJob(const TestJob&) = delete;
  TestJob& operator=(const TestJob&) = delete;

  const std::string& folder() const { return folder_; }
  std::string job_file() const { return folder_ + "/job.yaml"; }
  std::string data_dir() const { return folder_ + "/data"; }
  std::string output_dir() const { return folder_ + "/out"; }
  std::string log_dir() const { return output_dir() + "/logs"; }
  uint16_t port(uint32_t shard) const { return ports_[shard]; }

  // Starts server `shard` as a user would, with --job, --rank, --log_dir and then `arguments`. The
  // returned reference stays valid as long as this TestJob. A second start of the same server
  // starts another process in addition to the first.
  TestProgram& StartServer(uint32_t shard, const std::vector<std::string>& arguments = {});
  // The same for a worker. If `program` is not empty, starts that instead of bin/tern_worker.
  TestProgram& StartWorker(uint32_t rank, const std::vector<std::string>& arguments = {},
                           const std::string& program = {});
  // Starts all servers, then all workers.
  void StartAll(const std::vector<std::string>& arguments = {});
  // The newest process that StartServer, StartWorker or StartAll started for a rank.
  TestProgram& server(uint32_t shard) { return *servers_.at(shard); }
  TestProgram& worker(uint32_t rank) { return *workers_.at(rank); }
  // Waits for the newest process of each rank. Fails the test if any of them does not end with
  // `code`.
  void ExpectAllEnd(int code, double seconds = kPatienceSeconds);
  // Starts bin/tern with these arguments.
  TestProgram& StartTern(const std::vector<std::string>& arguments);
  // Starts any program.
  TestProgram& Start(const std::string& name, const std::string& path,
                     const std::vector<std::string>& arguments);

  // The newest progress report of shard 0 (the first server), if StartServer(0) started it, as a
  // JSON object; null before the first report.
  nlohmann::json Progress() const;
  // Waits until shard 0 knows that some worker has applied the result of `round`. StartServer(0)
  // must have started shard 0. At the deadline, fails the test and returns false.
  bool WaitForRound(uint64_t round, double seconds = kPatienceSeconds);
  // Waits until every worker has begun to train, also if `tern run` started it.
  bool WaitForTraining(double seconds = kPatienceSeconds);
  // The process id of the newest process that `tern run` has started as `name` ("worker 1"); 0 if
  // it has started none.
  static pid_t PidOf(const TestProgram& tern, const std::string& name);

  // A file of output_dir as JSON: Output("server.0.json"). If it is not JSON, fails the test and
  // returns null.
  nlohmann::json Output(const std::string& name) const;
  std::string OutputBytes(const std::string& name) const {
    return ReadFile(output_dir() + "/" + name);
  }
  // The bytes of the final weights. Fails the test if there are none.
  std::string Weights() const;
  // The logs of all processes that ran as this daemon, one after the other: Log("worker", 1).
  std::string Log(const std::string& role, uint32_t rank) const;
  // Waits until Log(role, rank) contains `text`. At the deadline, fails the test and returns false.
  bool WaitForLog(const std::string& role, uint32_t rank, const std::string& text,
                  double seconds = kPatienceSeconds) const;

  // The folder of the built programs, and the path of one of these programs.
  static std::string BinDir();
  static std::string BinaryPath(const std::string& name) { return BinDir() + "/" + name; }

 private:
  TestProgram& StartDaemon(const std::string& role, uint32_t rank,
                           const std::vector<std::string>& arguments, int fd,
                           const std::string& program = {});
  void WriteJob() const;

  const JobOptions options_;
  std::string folder_;
  std::vector<uint16_t> ports_;
  int progress_fd_ = -1;  // the file to which shard 0 writes its progress
  std::vector<std::unique_ptr<TestProgram>> programs_;
  std::map<uint32_t, TestProgram*> servers_, workers_;  // the newest process of each rank
};

}  // namespace tern::e2e
