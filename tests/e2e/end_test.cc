// Tests how jobs start and end: in any order, by a signal, or with an error message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/tensors/safetensors.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr uint64_t kEndlessSteps = 1000000;

// The number that follows the last `mark` in `text`, or 0 if `text` has no `mark`.
uint64_t NumberAfter(const std::string& text, const std::string& mark) {
  const size_t mark_begin = text.rfind(mark);
  return mark_begin == std::string::npos
             ? 0
             : std::strtoull(text.c_str() + mark_begin + mark.size(), nullptr, 10);
}

TEST(Signal, SigtermToShard0EndsAllAfterTheSameRound) {
  TestJob job({.servers = 2, .workers = 3, .steps = kEndlessSteps, .batch_total = 9});
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(3));
  job.server(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
  Result<tensors::TensorFile> weights = tensors::DecodeSafetensors(job.Weights());
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  const uint64_t last_step = std::stoull(weights->metadata["step"]);
  EXPECT_GE(last_step, 3u);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(NumberAfter(job.Log("worker", rank), "the job ends for this worker after step "),
              last_step);
    EXPECT_EQ(job.Output("worker." + std::to_string(rank) + ".json")["rounds"], last_step);
  }
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["code"], 143);
  EXPECT_EQ(summary["rounds"], last_step);
  EXPECT_EQ(summary["replicas_agree"], true);
  EXPECT_EQ(summary["test_samples"], 60) << "evaluated at the end";
}

TEST(Signal, SigtermToAnotherShardEndsAllToo) {
  TestJob job({.servers = 2, .steps = kEndlessSteps});
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(3));
  job.server(1).Signal(SIGTERM);
  job.ExpectAllEnd(143);
  EXPECT_FALSE(job.Weights().empty());
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
}

TEST(Signal, SigintToShard0EndsAllWith130) {
  TestJob job({.steps = kEndlessSteps});
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(1));
  job.server(0).Signal(SIGINT);
  job.ExpectAllEnd(130);
  EXPECT_FALSE(job.Weights().empty());
}

TEST(Signal, SigtermToAWorkerThatMayLeaveEndsItAfterItsRoundAndTheOthersSayWhy) {
  TestJob job({.workers = 3,
               .steps = kEndlessSteps,
               .batch_total = 9,
               .yaml = "faults: {worker_signal: leave}\n"});
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(3));
  job.worker(1).Signal(SIGTERM);
  EXPECT_EQ(job.worker(1).Wait(), 143);
  for (TestProgram* other : {&job.server(0), &job.worker(0), &job.worker(2)}) {
    EXPECT_EQ(other->Wait(), 75);
    EXPECT_THAT(other->err(), ContainsRegex("worker 1 \\(.*\\) was lost at round [0-9]+: it left: "
                                            "stopped in order by SIGTERM"));
  }
}

TEST(Signal, SigtermToAWorkerThatMayLeaveEndsItAlsoWhileItWaitsForALostOne) {
  const JobOptions options = {
      .workers = 3,
      .steps = 200,
      .batch_total = 9,
      .yaml =
          "faults: {worker_signal: leave, on_worker_loss: wait, heartbeat_ms: 50, "
          "suspect_after_s: 0.4, dead_after_s: 1}\n"};
  TestJob undisturbed(options);
  undisturbed.StartAll();
  undisturbed.ExpectAllEnd(0);
  TestJob job(options);
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(3));
  job.worker(2).Signal(SIGKILL);
  ASSERT_EQ(job.worker(2).Wait(), 128 + SIGKILL);
  ASSERT_TRUE(job.server(0).WaitForErr("was lost at round"));
  job.worker(1).Signal(SIGTERM);
  EXPECT_EQ(job.worker(1).Wait(), 143);
  for (const uint32_t rank : {1, 2}) job.StartWorker(rank);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == undisturbed.Weights()) << "other weights than without the fault";
}

TEST(Signal, SigtermWhileWorkersAreAwaitedEndsAll) {
  TestJob job;
  job.StartServer(0);
  job.StartWorker(0);
  ASSERT_TRUE(job.server(0).WaitForErr("worker 0"));
  job.server(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
  EXPECT_THAT(job.worker(0).err(), HasSubstr("while not all workers were there"));
}

// Starts the processes in `start_order` ("s0": shard 0, "w1": worker 1), each as soon as the
// previous one runs. Returns the final weights of the job.
std::string WeightsAfterStarts(const std::vector<std::string>& start_order) {
  TestJob job({.servers = 2, .yaml = "exchange: {chunk_kib: 256}\n"});
  for (const std::string& daemon : start_order) {
    const auto rank = static_cast<uint32_t>(daemon[1] - '0');
    daemon[0] == 's' ? job.StartServer(rank) : job.StartWorker(rank);
    const std::string role = daemon[0] == 's' ? "server" : "worker";
    EXPECT_TRUE(job.WaitForLog(role, rank, "the job as this " + role));
  }
  job.ExpectAllEnd(0);
  return job.Weights();
}

TEST(Start, AnyOrderWorks) {
  const std::string weights = WeightsAfterStarts({"s0", "s1", "w0", "w1"});
  EXPECT_TRUE(weights == WeightsAfterStarts({"w1", "w0", "s1", "s0"}));
  EXPECT_TRUE(weights == WeightsAfterStarts({"s1", "w0", "s0", "w1"}));
}

TEST(Start, AWorkerKilledBeforeTheFirstRoundMayStartAgain) {
  TestJob job;
  job.StartServer(0);
  job.StartWorker(1);
  ASSERT_TRUE(job.server(0).WaitForErr("worker 1"));
  job.worker(1).Signal(SIGKILL);
  ASSERT_EQ(job.worker(1).Wait(), 128 + SIGKILL);
  ASSERT_TRUE(job.server(0).WaitForErr("was lost"));
  job.StartWorker(1);
  job.StartWorker(0);
  job.ExpectAllEnd(0);
}

TEST(Start, ServersAndWorkersNameMissingDaemons) {
  const std::string one_second_timeout = "faults: {start_timeout_s: 1}\n",
                    four_second_timeout = "faults.start_timeout_s=4";
  TestJob job({.yaml = one_second_timeout});
  TestProgram& server = job.StartServer(0);
  EXPECT_EQ(server.Wait(), 75);
  EXPECT_THAT(server.err(),
              ContainsRegex("did not start within 1\\.0 s: no hello from worker 0, 1"));
  TestProgram& worker = job.StartWorker(0);
  EXPECT_EQ(worker.Wait(), 75);
  EXPECT_THAT(worker.err(), HasSubstr("still waiting for server shard 0 (127.0.0.1:" +
                                      std::to_string(job.port(0)) + ")"));
  job.StartServer(0, {"--set", four_second_timeout});
  job.StartWorker(1, {"--set", four_second_timeout});
  job.ExpectAllEnd(75);
  EXPECT_THAT(job.server(0).err(), HasSubstr("no hello from worker 0"));
}

bool HasIpv6() {
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool is_bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return is_bound;
}

// Runs a short job to its end and checks that the replicas are equal.
void ExpectRunSucceeds(const JobOptions& options) {
  TestJob job(options);
  job.StartAll();
  job.ExpectAllEnd(0);
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["replicas_agree"], true) << options.yaml;
  EXPECT_EQ(summary["rounds"], options.steps) << options.yaml;
  EXPECT_GT(job.Weights().size(), 431080 * sizeof(float));
}

TEST(Run, OverIpv6) {
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  ExpectRunSucceeds({.host = "[::1]"});
}

TEST(Run, WithOtherCodecsClipsAndScalers) {
  for (const char* exchange : {
           "codec: fp16",
           "codec: ternary, scaler: per_worker",
           "codec: ternary, clip: official",
           "codec: ternary, clip: none",
           "codec: ternary, clip: grace, scaler: per_worker",
           "codec: ternary, rules: [{tensors: 'fc3.*', codec: fp32}, {max_elements: 600, codec: "
           "fp16}]",
       }) {
    ExpectRunSucceeds({.yaml = std::string("exchange: {") + exchange + "}\n"});
  }
}

TEST(Run, WithAveragedWeightsEvaluationsAndDecay) {
  JobOptions options;
  options.yaml =
      "evaluation: {every_steps: 7, ema_decay: 0.99}\nfaults: {compare_every_steps: 3}\n";
  TestJob job(options);
  job.StartAll({"--set", "train.weight_decay.rate=0.0005", "--set", "train.schedule.name=poly"});
  job.ExpectAllEnd(0);
  EXPECT_GT(job.OutputBytes("weights_average.safetensors").size(), 431080 * sizeof(float));
  EXPECT_THAT(job.Log("worker", 0), HasSubstr("after step 7: test accuracy"));
  EXPECT_THAT(job.Log("worker", 0), HasSubstr("after step 20: test accuracy"));
}

// With local steps, the replicas may be compared and the weights evaluated in one round of steps.
TEST(Run, EvaluatesWeightsThatWereComparedBefore) {
  TestJob job({.yaml = "evaluation: {every_steps: 6}\nfaults: {compare_every_steps: 5}\n"});
  job.StartAll({"--set", "train.algorithm=psgd", "--set", "train.psgd.p=5"});
  job.ExpectAllEnd(0);
  for (const int step : {6, 12, 18, 20})
    EXPECT_THAT(job.Log("worker", 0), HasSubstr(Cat("after step ", step, ": test accuracy")));
}

}  // namespace
}  // namespace tern::e2e
