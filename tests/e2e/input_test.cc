// Tests that invalid input gives an error message and an exit code, and does not disturb the
// daemons that already run. Also tests the metrics that daemons serve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kEndlessSteps = 1000000;

std::string WriteTextFile(const TestJob& job, const std::string& name, const std::string& text) {
  const std::string path = job.folder() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// ---- the machine

TEST(Machine, ACpuWithoutBf16IsNamed) {
  TestJob job({.train_images = 40, .test_images = 20});
  ASSERT_EQ(setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1), 0);
  TestProgram& worker = job.StartWorker(0, {"--set", "train.precision=bf16"});
  unsetenv("ONEDNN_MAX_CPU_ISA");
  EXPECT_EQ(worker.Wait(), 78);
  EXPECT_THAT(worker.err(), HasSubstr("train.precision is bf16, which this CPU does not have"));
}

// ---- data files

struct BadFile {
  std::string file;  // its name in the data folder
  std::function<std::string(const std::string&)> spoil;
  std::string expected_text;  // what stderr must contain in addition to the name of the file
};

TEST(Data, BadFilesAreNamedWithExitCode65) {
  TestJob job({.train_images = 40, .test_images = 20});
  const std::string images = ReadFile(job.data_dir() + "/train-images-idx3-ubyte");
  const std::vector<BadFile> bad_files = {
      {"train-images-idx3-ubyte", [](auto& s) { return s.substr(0, s.size() - 10); }, "truncated"},
      {"train-images-idx3-ubyte", [](auto& s) { return s.substr(0, 3); }, "truncated"},
      {"train-images-idx3-ubyte", [](auto& s) { return s + "12345"; }, "bytes after the end"},
      {"train-images-idx3-ubyte",
       [](auto& s) { return s.substr(0, 4) + std::string(4, '\xff') + s.substr(8); },
       "more than the 4 GiB"},
      {"t10k-labels-idx1-ubyte", [&](auto&) { return images; }, "swapped"},
      {"train-labels-idx1-ubyte", [](auto& s) { return s.substr(0, 7) + '\x27' + s.substr(8, 39); },
       "39"},
      {"t10k-images-idx3-ubyte", [](auto&) { return std::string("<html>not here</html>"); },
       "not an IDX file"},
      {"train-labels-idx1-ubyte", [](auto&) { return std::string(); }, "truncated"},
  };
  for (const BadFile& bad_file : bad_files) {
    const std::string path = job.data_dir() + "/" + bad_file.file, original = ReadFile(path);
    std::ofstream(path, std::ios::binary) << bad_file.spoil(original);
    TestProgram& worker = job.StartWorker(0);
    EXPECT_EQ(worker.Wait(), 65) << bad_file.file << ", " << bad_file.expected_text;
    EXPECT_THAT(worker.err(), AllOf(HasSubstr(path), HasSubstr(bad_file.expected_text)));
    std::ofstream(path, std::ios::binary) << original;
  }
}

TEST(Data, LabelsThatTheModelDoesNotKnowAreNamed) {
  TestJob job({.train_images = 40, .test_images = 20});
  const std::string path = job.data_dir() + "/train-labels-idx1-ubyte";
  std::string labels = ReadFile(path);
  labels.back() = '\x0b';
  std::ofstream(path, std::ios::binary) << labels;
  TestProgram& worker = job.StartWorker(0);
  EXPECT_EQ(worker.Wait(), 65);
  EXPECT_THAT(worker.err(), AllOf(HasSubstr(job.data_dir()), HasSubstr("label 11")));
}

TEST(Data, AFolderWithoutTheFilesIsNamed) {
  TestJob job;
  TestProgram& worker = job.StartWorker(0, {"--set", "data.dir=/does/not/exist"});
  EXPECT_EQ(worker.Wait(), 65);
  EXPECT_THAT(worker.err(), HasSubstr("/does/not/exist"));
}

// The length of the job is in steps, so that it says nothing of the data.
TEST(Data, AWorkerWithOtherDataIsRefusedAndOneWithTheSameTakesPart) {
  TestJob job;
  const std::string other_dir = job.folder() + "/other";
  std::filesystem::copy(job.data_dir(), other_dir);
  const std::string path = other_dir + "/train-labels-idx1-ubyte", labels = ReadFile(path);
  std::string other_labels = labels;
  std::swap(other_labels.end()[-1], other_labels.end()[-2]);
  ASSERT_NE(other_labels, labels);
  std::ofstream(path, std::ios::binary) << other_labels;
  job.StartServer(0);
  job.StartWorker(0);
  ASSERT_TRUE(job.WaitForLog("server", 0, " is here"));
  TestProgram& refused = job.StartWorker(1, {"--set", "data.dir=" + other_dir});
  EXPECT_EQ(refused.Wait(), 76);
  EXPECT_THAT(refused.err(),
              HasSubstr("worker 1 has 240 training and 60 test images in 10 classes, worker 0 has "
                        "as many, but with other class names, labels or sizes"));
  std::ofstream(path, std::ios::binary) << labels;
  job.StartWorker(1, {"--set", "data.dir=" + other_dir});
  job.ExpectAllEnd(0);
}

// ---- job files

TEST(JobFile, EveryFaultIsNamedAtOnceByBothDaemonsWithExitCode78) {
  TestJob job;
  const std::string path = WriteTextFile(job, "bad.yaml", R"(sede: 3
servers:
  - address: 127.0.0.1:7500
    data_sockets: 0
workers: {count: 0}
model: {name: lenet5}
train:
  batch_total: 8
  steps: 5
  steps: 6
exchange: {codec: terrnary, chunk_kib: 99999999}
faults: {on_worker_loss: shrug, heartbeat_ms: often}
)");
  for (const char* role : {"server", "worker"}) {
    TestProgram& daemon =
        job.Start(role, TestJob::BinaryPath(Cat("tern_", role)), {"--job", path, "--rank", "0"});
    EXPECT_EQ(daemon.Wait(), 78);
    for (const char* expected_text :
         {":1:1: sede:", "did you mean seed?", ":4:19: servers[0].data_sockets: saw 0",
          "workers.count: saw 0", "did you mean lenet?", "data: saw nothing",
          ":10:3: train.steps: saw the key a second time", "did you mean ternary?",
          "exchange.chunk_kib: saw 99999999; allowed: a whole number, 1 to 65536",
          "faults.on_worker_loss: saw shrug; allowed: one of fail, wait",
          "faults.heartbeat_ms: saw often"}) {
      EXPECT_THAT(daemon.err(), HasSubstr(expected_text));
    }
  }
}

// A job that asks for a GPU on a machine without one. Skipped on a machine with a GPU.
TEST(JobFile, AMissingDeviceIsNamedWithExitCode78) {
  if (std::ifstream("/dev/nvidiactl").good()) GTEST_SKIP() << "there is a GPU here";
  TestJob job({.train_images = 40, .test_images = 20});
  TestProgram& worker = job.StartWorker(0, {"--set", "workers.device=cuda"});
  EXPECT_EQ(worker.Wait(), 78);
  EXPECT_THAT(job.Log("worker", 0),
              AllOf(HasSubstr("workers.device is cuda, but"), HasSubstr("set it to cpu")));
}

TEST(JobFile, AliasesAreRefused) {
  TestJob job;
  const std::string path = WriteTextFile(job, "alias.yaml", "name: &n a\noutput_dir: *n\n");
  TestProgram& server =
      job.Start("server", TestJob::BinaryPath("tern_server"), {"--job", path, "--rank", "0"});
  EXPECT_EQ(server.Wait(), 78);
  EXPECT_THAT(server.err(), AllOf(HasSubstr("anchor (&)"), HasSubstr("alias (*)")));
}

TEST(JobFile, ARankOutOfRangeIsNamed) {
  TestJob job;
  for (TestProgram* daemon : {&job.StartServer(1), &job.StartWorker(2)}) {
    EXPECT_EQ(daemon->Wait(), 78);
    EXPECT_THAT(daemon->err(),
                ContainsRegex("--rank [12]: the job has [12] .*so the rank is at most [01]"));
  }
}

TEST(JobFile, OtherAddressesThanLoopbackNeedSecurityNone) {
  TestJob job;
  const std::vector<std::string> other_address_flags = {"--set",
                                                        "servers.0.address=192.0.2.1:7500"};
  for (TestProgram* daemon :
       {&job.StartServer(0, other_address_flags), &job.StartWorker(0, other_address_flags)}) {
    EXPECT_EQ(daemon->Wait(), 78);
    EXPECT_THAT(daemon->err(), AllOf(HasSubstr("192.0.2.1:7500"), HasSubstr("security: none")));
  }
}

TEST(JobFile, SecurityNoneIsRepeatedInEveryLog) {
  TestJob job({.steps = 2});
  job.StartAll({"--set", "security=none"});
  job.ExpectAllEnd(0);
  for (const std::string& log : {job.Log("server", 0), job.Log("worker", 0), job.Log("worker", 1)})
    EXPECT_THAT(log, HasSubstr("security: none: peers are not authenticated"));
}

// ---- addresses

TEST(Address, APortInUseIsNamedAndItsOwnerContinues) {
  TestJob job;
  job.StartServer(0);
  ASSERT_TRUE(job.WaitForLog("server", 0, "the job as this server"));
  job.StartWorker(0);
  ASSERT_TRUE(job.server(0).WaitForErr("worker 0"));  // server 0's sockets are bound now
  TestProgram& first_server = job.server(0);
  TestProgram& other_server =
      job.StartServer(0, {"--set", Cat("output_dir=", job.folder(), "/other")});
  EXPECT_EQ(other_server.Wait(), 69);
  EXPECT_THAT(other_server.err(), HasSubstr(Cat("port ", job.port(0), " is in use")));
  job.StartWorker(1);
  EXPECT_EQ(first_server.Wait(), 0) << first_server.err();
}

TEST(Address, AFolderInUseIsNamedAndItsOwnerContinues) {
  TestJob job;
  job.StartServer(0);
  ASSERT_TRUE(job.WaitForLog("server", 0, "the job as this server"));
  TestProgram& first_server = job.server(0);
  TestProgram& second_server =
      job.StartServer(0, {"--set", Cat("servers.0.address=127.0.0.1:", FreePorts(1).at(0)), "--set",
                          "name=other", "--log_dir", job.folder() + "/other_logs"});
  EXPECT_EQ(second_server.Wait(), 69);
  EXPECT_THAT(second_server.err(),
              ContainsRegex(Cat("folder ", job.output_dir(), " is in use by job 'test', process ",
                                first_server.pid(), " on .*, since .*--set output_dir=")));
  EXPECT_FALSE(std::filesystem::exists(job.folder() + "/other_logs"))
      << "before it writes anything";
  for (const uint32_t rank : {0, 1}) job.StartWorker(rank);
  EXPECT_EQ(first_server.Wait(), 0) << first_server.err();
}

TEST(Address, OneThatDoesNotResolveIsNamed) {
  TestJob job;
  const std::vector<std::string> unknown_host_flags = {
      "--set", "servers.0.address=nowhere.invalid:7500",
      "--set", "security=none",
      "--set", "faults.start_timeout_s=2"};
  for (TestProgram* daemon :
       {&job.StartServer(0, unknown_host_flags), &job.StartWorker(0, unknown_host_flags)}) {
    EXPECT_EQ(daemon->Wait(), 69);
    EXPECT_THAT(daemon->err(), HasSubstr("nowhere.invalid"));
  }
}

TEST(Address, AMetricsPortInUseIsNamed) {
  TestJob job;
  const uint16_t metrics_port = FreeMetricsPort();
  job.StartServer(0, {"--set", Cat("metrics.port=", metrics_port)});
  ASSERT_TRUE(WaitUntil([&] { return !GetMetrics(metrics_port).empty(); }));
  // Worker 0's metrics port is metrics.port + 100.
  TestProgram& worker = job.StartWorker(0, {"--set", Cat("metrics.port=", metrics_port - 100)});
  EXPECT_EQ(worker.Wait(), 69);
  EXPECT_THAT(worker.err(), HasSubstr(std::to_string(metrics_port)));
}

// ---- peers

TEST(Peer, OfAnotherJobIsRefusedWithTheKeyThatDiffers) {
  TestJob job;
  job.StartServer(0);
  job.StartWorker(0);
  for (const char* different_setting :
       {"seed=2", "model.padding=same", "exchange.codec=fp32", "name=another"}) {
    TestProgram& worker = job.StartWorker(1, {"--set", different_setting});
    EXPECT_EQ(worker.Wait(), 76) << different_setting;
    const std::string setting = different_setting, key = setting.substr(0, setting.find('='));
    EXPECT_THAT(worker.err(), HasSubstr("the job differs from the server's in " + key));
  }
  EXPECT_TRUE(job.WaitForLog("server", 0, "the peer's digest is"));
  job.StartWorker(1);
  job.ExpectAllEnd(0);
}

TEST(Peer, AServerShardOfAnotherJobIsRefusedToo) {
  TestJob job({.servers = 2, .steps = 2});
  job.StartServer(0);
  TestProgram& refused_server = job.StartServer(1, {"--set", "seed=2"});
  EXPECT_EQ(refused_server.Wait(), 76);
  EXPECT_THAT(refused_server.err(), HasSubstr("the job differs"));
  job.StartServer(1);
  for (const uint32_t rank : {0, 1}) job.StartWorker(rank);
  job.ExpectAllEnd(0);
}

TEST(Peer, ASecondProcessOfARankIsRefusedAndTheFirstContinues) {
  TestJob job({.steps = kEndlessSteps});
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(1));
  TestProgram& first_worker = job.worker(1);
  TestProgram& second_worker = job.StartWorker(1);
  EXPECT_EQ(second_worker.Wait(), 77);
  EXPECT_THAT(second_worker.err(),
              ContainsRegex("rank 1 is taken by worker 1 \\(.*\\), which is alive"));
  ASSERT_TRUE(job.WaitForRound(job.Progress().value("rounds", uint64_t{0}) + 5));
  EXPECT_THAT(job.Log("server", 0), Not(HasSubstr("lost")));
  job.server(0).Signal(SIGTERM);
  EXPECT_EQ(first_worker.Wait(), 143);
  EXPECT_EQ(job.worker(0).Wait(), 143);
  EXPECT_EQ(job.server(0).Wait(), 143);
}

// ---- numbers

TEST(Gradient, OneThatIsNotFiniteEndsTheJobNamingTensorWorkerAndRound) {
  TestJob job({.servers = 2, .steps = kEndlessSteps});
  job.StartAll({"--set", "train.schedule.learning_rate=1e30"});
  const char* error_pattern =
      "the gradient of [a-z0-9]+\\.(weight|bias) is not finite at round [0-9]+ on worker [01]";
  for (const uint32_t rank : {0, 1}) {
    EXPECT_EQ(job.worker(rank).Wait(), 79);
    EXPECT_THAT(job.worker(rank).err(), ContainsRegex(error_pattern));
  }
  for (const uint32_t shard : {0, 1}) {
    EXPECT_EQ(job.server(shard).Wait(), 79);
    EXPECT_THAT(job.server(shard).err(),
                ContainsRegex(Cat("worker [01] \\(.*\\) ended the job: ", error_pattern)));
  }
}

// The worker that a server refuses leaves at once, and nobody waits for it.
TEST(Scaler, OneThatIsTooLargeEndsAllAtOnce) {
  TestJob job({.servers = 2, .steps = kEndlessSteps});
  job.StartAll({"--set", "exchange.max_scaler=1e-9", "--set", "faults.dead_after_s=600"});
  for (const uint32_t rank : {0, 1}) EXPECT_EQ(job.worker(rank).Wait(), 79);
  for (const uint32_t shard : {0, 1}) {
    EXPECT_EQ(job.server(shard).Wait(), 79);
    EXPECT_THAT(job.server(shard).err(),
                ContainsRegex("worker [01] \\(.*\\) ended the job: refused by server shard "
                              "[01]: .*more than exchange.max_scaler, 1e-09"));
  }
}

// ---- counters

TEST(Metrics, BothDaemonsServeThemDuringARun) {
  TestJob job({.steps = kEndlessSteps});
  const uint16_t metrics_port = FreeMetricsPort();
  job.StartAll({"--set", Cat("metrics.port=", metrics_port)});
  ASSERT_TRUE(job.WaitForRound(2));
  const std::string server_metrics = GetMetrics(metrics_port);
  EXPECT_THAT(server_metrics,
              AllOf(HasSubstr("HTTP/1.1 200"), HasSubstr("text/plain; version=0.0.4"),
                    HasSubstr("# TYPE tern_server_contributions_total counter")));
  EXPECT_EQ(MetricOf(server_metrics, "tern_server_workers_present"), 2);
  EXPECT_GT(MetricOf(server_metrics, "tern_server_contributions_total{lane=\"1\"}"), 0);
  EXPECT_GT(MetricOf(server_metrics, "tern_net_bytes_total{direction=\"in\",type=\"push\"}"), 0);
  for (const int rank : {0, 1}) {
    const std::string worker_metrics = GetMetrics(static_cast<uint16_t>(metrics_port + 100 + rank));
    EXPECT_THAT(worker_metrics, HasSubstr("# TYPE tern_worker_rounds_total counter"));
    EXPECT_GE(MetricOf(worker_metrics, "tern_worker_rounds_total"), 2);
    EXPECT_GT(MetricOf(worker_metrics, "tern_worker_compute_seconds_total"), 0);
  }
  job.server(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
}

}  // namespace
}  // namespace tern::e2e
