// Tests of exchange.host_sum in real processes: the workers of a host add up their pushes, which
// does not change the result, also if some of them are killed. Folders of their own for temporary
// files (TMPDIR) make workers of one machine be on several hosts.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

constexpr uint32_t kWorkers = 4;
constexpr const char* kLeads = "adds up the pushes of its host";

const std::vector<std::string> kHostSum = {"--set", "exchange.host_sum=true"};

JobOptions Options(const std::string& codec, uint64_t steps = 40, const std::string& yaml = "") {
  JobOptions options;
  options.servers = 2;
  options.workers = kWorkers;
  options.steps = steps;
  options.batch_total = 16;
  options.yaml = "exchange: {codec: " + codec + ", bucket_kib: 256, chunk_kib: 256}\n" + yaml;
  return options;
}

// A job whose ranks 0 and 1 are on one host, and the others on another one.
class HostJob : public TestJob {
 public:
  explicit HostJob(const JobOptions& options) : TestJob(options) {}
  TestProgram& StartOnHost(uint32_t rank) {
    const std::string folder = folder_of_host(rank);
    std::filesystem::create_directories(folder);
    setenv("TMPDIR", folder.c_str(), 1);
    TestProgram& worker = StartWorker(rank, kHostSum);
    unsetenv("TMPDIR");
    return worker;
  }
  void StartOnHosts() {
    for (uint32_t shard = 0; shard < 2; ++shard) StartServer(shard, kHostSum);
    for (uint32_t rank = 0; rank < kWorkers; ++rank) StartOnHost(rank);
  }
  std::string folder_of_host(uint32_t rank) const {
    return folder() + (rank < 2 ? "/host0" : "/host1");
  }
  bool Leads(uint32_t rank) const { return Log("worker", rank).find(kLeads) != std::string::npos; }
  // Waits until one of ranks 0 and 1 leads, and returns it.
  uint32_t AwaitLeader() const {
    EXPECT_TRUE(WaitUntil([&] { return Leads(0) || Leads(1); }));
    return Leads(0) ? 0 : 1;
  }
  uint64_t BytesOf(uint32_t rank, const std::string& message, const std::string& way) const {
    const nlohmann::json traffic = Output("worker." + std::to_string(rank) + ".json")["traffic"];
    return traffic.contains(message) ? traffic[message].value("bytes_" + way, uint64_t{0}) : 0;
  }
};

std::string WeightsWithoutHostSum(const JobOptions& options) {
  TestJob job(options);
  job.StartAll();
  job.ExpectAllEnd(0);
  return job.Weights();
}

class HostSum : public testing::TestWithParam<const char*> {};

TEST_P(HostSum, EndsWithTheBytesOfARunWithoutIt) {
  const JobOptions options = Options(GetParam());
  HostJob job(options);
  job.StartOnHosts();
  job.ExpectAllEnd(0);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
  EXPECT_TRUE(job.Weights() == WeightsWithoutHostSum(options));
  for (const uint32_t host : {0, 2}) {
    EXPECT_NE(job.Leads(host), job.Leads(host + 1)) << "each host has one leader";
    const uint32_t leader = job.Leads(host) ? host : host + 1, member = 2 * host + 1 - leader;
    // The first rounds are before the workers have found each other.
    EXPECT_LT(job.BytesOf(member, "push", "out"), job.BytesOf(leader, "push", "out") / 4);
    EXPECT_LT(job.BytesOf(member, "sum", "in"), job.BytesOf(leader, "sum", "in") / 4);
  }
  for (const uint32_t rank : {0, 2}) {
    EXPECT_TRUE(std::filesystem::is_empty(job.folder_of_host(rank))) << "left something behind";
  }
}

INSTANTIATE_TEST_SUITE_P(Exact, HostSum,
                         testing::Values("ternary", "ternary_ans", "qsgd_shared, scaler: previous",
                                         "qsgd_shared_ans"),
                         [](const auto& info) { return "Codec" + std::to_string(info.index); });

TEST(HostSumOfFloats, KeepsTheReplicasEqual) {
  HostJob job(Options("fp32", 30, "faults: {compare_every_steps: 5}\n"));
  job.StartOnHosts();
  job.ExpectAllEnd(0);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
  EXPECT_LT(std::min(job.BytesOf(0, "push", "out"), job.BytesOf(1, "push", "out")),
            std::max(job.BytesOf(0, "push", "out"), job.BytesOf(1, "push", "out")) / 4);
}

// Options of a job of ternary codes that is long enough for faults. A process counts as lost after
// a second.
JobOptions FaultOptions(const std::string& on_loss) {
  return Options("ternary", 400,
                 "faults: {on_worker_loss: " + on_loss +
                     ", heartbeat_ms: 50, suspect_after_s: 0.4, dead_after_s: 1}\n");
}

void Kill(TestProgram& program) {
  program.Signal(SIGKILL);
  ASSERT_EQ(program.Wait(), 128 + SIGKILL) << "it had ended before";
}

// Kills the leader of a host, or another worker of it, and starts it again.
void KillOneOfAHost(bool kills_leader) {
  HostJob job(FaultOptions("wait"));
  job.StartOnHosts();
  const uint32_t leader = job.AwaitLeader();
  ASSERT_TRUE(job.WaitForRound(20));
  const uint32_t killed = kills_leader ? leader : 1 - leader;
  Kill(job.worker(killed));
  if (kills_leader) {
    EXPECT_TRUE(job.WaitForLog("worker", 1 - leader, kLeads));
  }
  job.StartOnHost(killed);
  job.ExpectAllEnd(0);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
  EXPECT_TRUE(job.Weights() == WeightsWithoutHostSum(FaultOptions("wait")));
}

TEST(HostSumWithFaults, AKilledLeaderComesBackUnderWait) { KillOneOfAHost(true); }
TEST(HostSumWithFaults, AKilledWorkerComesBackUnderWait) { KillOneOfAHost(false); }

TEST(HostSumWithFaults, TheOthersGoOnWithoutAKilledLeaderUnderShrink) {
  HostJob job(FaultOptions("shrink"));
  job.StartOnHosts();
  const uint32_t leader = job.AwaitLeader();
  ASSERT_TRUE(job.WaitForRound(20));
  Kill(job.worker(leader));
  EXPECT_TRUE(job.WaitForLog("worker", 1 - leader, kLeads));
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    if (rank == leader) continue;
    EXPECT_EQ(job.worker(rank).Wait(), 0) << job.worker(rank).err();
  }
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
}

// A leader that is stopped keeps its lock. The other worker of its host pushes by itself.
TEST(HostSumWithFaults, TheOthersGoOnWithoutAStoppedLeaderUnderShrink) {
  HostJob job(FaultOptions("shrink"));
  job.StartOnHosts();
  const uint32_t leader = job.AwaitLeader();
  ASSERT_TRUE(job.WaitForRound(20));
  job.worker(leader).Signal(SIGSTOP);
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    if (rank == leader) continue;
    EXPECT_EQ(job.worker(rank).Wait(), 0) << job.worker(rank).err();
  }
  EXPECT_NE(job.Log("worker", 1 - leader).find("the leader of this host hangs"), std::string::npos);
  Kill(job.worker(leader));
}

TEST(HostSumWithFaults, AKilledServerComesBackUnderWait) {
  HostJob job(FaultOptions("wait"));
  job.StartOnHosts();
  ASSERT_TRUE(job.WaitForRound(20));
  Kill(job.server(1));
  job.StartServer(1, kHostSum);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == WeightsWithoutHostSum(FaultOptions("wait")));
}

// A folder that others may enter is not used; the worker says why, and pushes by itself.
TEST(HostSumWithFaults, AWorkerWithoutAFolderPushesByItself) {
  HostJob job(Options("ternary", 20));
  for (uint32_t shard = 0; shard < 2; ++shard) job.StartServer(shard, kHostSum);
  setenv("TMPDIR", (job.folder() + "/there_is_none").c_str(), 1);
  for (uint32_t rank = 0; rank < kWorkers; ++rank) job.StartWorker(rank, kHostSum);
  unsetenv("TMPDIR");
  job.ExpectAllEnd(0);
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    EXPECT_NE(job.Log("worker", rank).find("this worker pushes to the servers itself"),
              std::string::npos);
  }
  EXPECT_TRUE(job.Weights() == WeightsWithoutHostSum(Options("ternary", 20)));
}

}  // namespace
}  // namespace tern::e2e
