// Tests that lost processes do not change the result: if a process that was killed or suspended
// comes back, the job ends with the same weights as an undisturbed run, byte for byte.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

// Options of a job that is long enough that faults happen well before the end.
JobOptions LongJobOptions(const std::string& faults) {
  JobOptions options;
  options.steps = 400;
  options.batch_total = 48;
  options.yaml = "faults: {" + faults + "}\n";
  return options;
}

// Options of a long job that waits for lost workers. A process counts as lost after a second.
JobOptions WaitOptions() {
  return LongJobOptions(
      "on_worker_loss: wait, heartbeat_ms: 50, suspect_after_s: 0.4, dead_after_s: 1");
}

// The final weights of an undisturbed run.
const std::string& UndisturbedWeights() {
  static const std::string weights = [] {
    TestJob job(WaitOptions());
    job.StartAll();
    job.ExpectAllEnd(0);
    return job.Weights();
  }();
  return weights;
}

void ExpectEndsUndisturbed(TestJob& job) {
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == UndisturbedWeights()) << "other weights than without the fault";
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
}

void KillAndWait(TestProgram& program) {
  program.Signal(SIGKILL);
  ASSERT_EQ(program.Wait(), 128 + SIGKILL) << "it had ended before";
}

TEST(KilledWorker, ComesBackUnderWait) {
  TestJob job(WaitOptions());
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.worker(1));
  job.StartWorker(1);
  ExpectEndsUndisturbed(job);
  EXPECT_NE(job.worker(1).err().find("installed the state after round"), std::string::npos);
}

TEST(KilledWorker, ComesBackLongAfterItWasLost) {
  TestJob job(WaitOptions());
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.worker(0));
  ASSERT_TRUE(job.server(0).WaitForErr("waiting for its return"));
  job.StartWorker(0);
  ExpectEndsUndisturbed(job);
}

// Without checkpoints a worker's local weights are lost, but not the outer optimizer's state, which
// is in the State. Without it, the workers' weights would differ after the next synchronization.
TEST(KilledWorker, GetsTheOuterOptimizerWithTheState) {
  TestJob job(WaitOptions());
  const std::vector<std::string> arguments = {"--set", "train.algorithm=pqasgd",
                                              "--set", "train.pqasgd.p=4",
                                              "--set", "train.pqasgd.outer.learning_rate=0.1",
                                              "--set", "faults.compare_every_steps=8"};
  job.StartAll(arguments);
  ASSERT_TRUE(job.WaitForRound(20));
  KillAndWait(job.worker(1));
  job.StartWorker(1, arguments);
  job.ExpectAllEnd(0);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
  EXPECT_NE(job.worker(1).err().find("installed the state after round"), std::string::npos);
}

const std::vector<std::string> kWithFragments = {
    "--set", "train.algorithm=pqasgd",   "--set", "train.pqasgd.p=4",
    "--set", "train.pqasgd.fragments=2", "--set", "train.pqasgd.outer.learning_rate=0.1",
    "--set", "exchange.chunk_kib=64",    "--set", "faults.compare_every_steps=8"};

// The workers agree on the fragments' common weights, not on where each of them goes on from these.
TEST(KilledWorker, GetsTheCommonWeightsOfAllFragments) {
  JobOptions options = WaitOptions();
  options.servers = 2;
  TestJob job(options);
  job.StartAll(kWithFragments);
  ASSERT_TRUE(job.WaitForRound(20));
  KillAndWait(job.worker(1));
  job.StartWorker(1, kWithFragments);
  job.ExpectAllEnd(0);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
  EXPECT_NE(job.worker(1).err().find("installed the state after round"), std::string::npos);
  EXPECT_NE(job.worker(1).err().find("this worker's own state (local weights"), std::string::npos);
}

// Step 25 is the last, and no fragment's turn. After it the worker pushes all fragments, and waits.
TEST(KilledWorker, IsKilledInTheLastExchangeOfAllFragments) {
  for (const std::string failpoint : {"thread.coder=die@step:25", "thread.wait=die@step:25"}) {
    SCOPED_TRACE(failpoint);
    JobOptions options = WaitOptions();
    options.steps = 25;
    TestJob job(options);
    std::vector<std::string> arguments = kWithFragments;
    arguments.insert(arguments.end(), {"--fail", failpoint});
    job.StartServer(0, kWithFragments);
    job.StartWorker(0, kWithFragments);
    ASSERT_EQ(job.StartWorker(1, arguments).Wait(), 128 + SIGKILL);
    job.StartWorker(1, kWithFragments);
    job.ExpectAllEnd(0);
    EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
    EXPECT_EQ(job.Output("server.0.json")["rounds"], 25);
    EXPECT_NE(job.worker(1).err().find("installed the state after round"), std::string::npos);
  }
}

TEST(KilledWorker, IsKilledAgainWhileItFetchesTheState) {
  // With this timeout the suspended worker does not yet count as lost when the new worker asks it
  // for the training state.
  TestJob job(LongJobOptions(
      "on_worker_loss: wait, heartbeat_ms: 50, suspect_after_s: 2, dead_after_s: 2.5"));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.worker(1));
  job.StartWorker(1);
  ASSERT_TRUE(job.server(0).WaitForErr("its connection is closed; waiting for its return"));
  job.worker(0).Signal(SIGSTOP);  // the only worker that can send the training state
  EXPECT_TRUE(job.worker(1).WaitForErr("fetching the state"));
  KillAndWait(job.worker(1));
  job.worker(0).Signal(SIGCONT);
  job.StartWorker(1);
  ExpectEndsUndisturbed(job);
}

TEST(KilledWorker, OneAfterTheOtherNeverLowersTheJobsSteps) {
  JobOptions options = WaitOptions();
  options.steps = 500;
  TestJob job(options);
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  for (const uint32_t rank : {1, 0}) {
    KillAndWait(job.worker(rank));
    job.StartWorker(rank);
    ASSERT_TRUE(job.worker(rank).WaitForErr("installed the state after round"));
    ASSERT_TRUE(job.WaitForRound(job.Progress().value("rounds", uint64_t{0}) + 5));
  }
  job.ExpectAllEnd(0);
  EXPECT_LT(job.Output("worker.0.json")["rounds"], 500);
  EXPECT_LT(job.Output("worker.1.json")["rounds"], 500);
  EXPECT_EQ(job.Output("server.0.json")["rounds"], 500);
  uint64_t newest_round = 0;
  std::istringstream progress(ReadFile(job.folder() + "/progress"));
  for (std::string line; std::getline(progress, line);) {
    const uint64_t round = nlohmann::json::parse(line)["rounds"];
    EXPECT_GE(round, newest_round) << line;
    newest_round = round;
  }
}

TEST(KilledServer, ComesBack) {
  TestJob job(WaitOptions());
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.server(0));
  job.StartServer(0);
  ExpectEndsUndisturbed(job);
}

TEST(KilledServer, ComesBackUnderFailToo) {
  TestJob job(LongJobOptions("on_worker_loss: fail"));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.server(0));
  ASSERT_TRUE(job.worker(0).WaitForErr("is lost: its connection closed"));
  job.StartServer(0);
  ExpectEndsUndisturbed(job);
}

TEST(KilledServer, EachOfTwoShardsComesBack) {
  JobOptions options = WaitOptions();
  options.servers = 2;
  options.yaml += "exchange: {chunk_kib: 256}\n";  // so that both shards have chunks
  TestJob job(options);
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.server(1));
  job.StartServer(1);
  const uint64_t rounds_before = job.Progress().value("rounds", uint64_t{0});
  ASSERT_TRUE(job.WaitForRound(rounds_before + 5));
  KillAndWait(job.server(0));
  job.StartServer(0);
  ExpectEndsUndisturbed(job);
}

TEST(KilledServer, ComesBackWhileAFragmentIsExchanged) {
  JobOptions options = WaitOptions();
  options.servers = 2;
  TestJob undisturbed_job(options);
  undisturbed_job.StartAll(kWithFragments);
  undisturbed_job.ExpectAllEnd(0);
  TestJob job(options);
  job.StartAll(kWithFragments);
  ASSERT_TRUE(job.WaitForRound(20));
  for (const uint32_t shard : {1, 0}) {
    KillAndWait(job.server(shard));
    job.StartServer(shard, kWithFragments);
    ASSERT_TRUE(job.WaitForRound(job.Progress().value("rounds", uint64_t{0}) + 10));
  }
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == undisturbed_job.Weights()) << "other weights than without the fault";
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
}

TEST(StoppedWorker, RejoinsByItselfAfterItWasLost) {
  TestJob job(WaitOptions());
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  job.worker(1).Signal(SIGSTOP);
  ASSERT_TRUE(job.server(0).WaitForErr("waiting for its return"));
  job.worker(1).Signal(SIGCONT);
  ExpectEndsUndisturbed(job);
  EXPECT_NE(job.server(0).err().find("has come back"), std::string::npos);
}

TEST(StoppedServer, BlamesNoWorkerForItsOwnSilence) {
  TestJob job(LongJobOptions("on_worker_loss: fail"));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  job.server(0).Signal(SIGSTOP);
  for (uint32_t rank : {0, 1}) ASSERT_TRUE(job.worker(rank).WaitForErr("is lost: silent for"));
  job.server(0).Signal(SIGCONT);
  ExpectEndsUndisturbed(job);
}

}  // namespace
}  // namespace tern::e2e
