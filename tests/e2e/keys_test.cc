// Jobs whose daemons know each other by keys (security: curve). Strangers, daemons with a key of
// somebody else, and false servers are refused, the result is that of the job without keys, and
// neither the wire nor any file or process shows what nobody should see.
#include "common/net/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "setup/key_files.h"
#include "setup/setup.h"
#include "tests/e2e/job_fixture.h"
#include "tests/e2e/stranger.h"
#include "tests/e2e/tcp_link.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

JobOptions OptionsWithTwoShards() {
  JobOptions options;
  options.servers = 2;
  options.steps = 60;
  options.yaml =
      "exchange: {chunk_kib: 256}\n"  // so that both shards have chunks
      "faults: {on_worker_loss: wait, heartbeat_ms: 50, suspect_after_s: 0.4, dead_after_s: 1}\n";
  return options;
}

// The final weights of the job of OptionsWithTwoShards without keys and without faults.
const std::string& UndisturbedWeights() {
  static const std::string weights = [] {
    TestJob job(OptionsWithTwoShards());
    job.StartAll();
    job.ExpectAllEnd(0);
    return job.Weights();
  }();
  return weights;
}

// A folder with the keys of a job.
class Keys {
 public:
  Keys(TestJob& job, const std::string& name) : folder_(job.folder() + "/" + name) {
    TestProgram& tern = job.StartTern({"keys", "make", folder_, "--job", job.job_file()});
    EXPECT_EQ(tern.Wait(), 0) << tern.err();
  }
  const std::string& folder() const { return folder_; }
  // The flags of a daemon that uses these keys.
  std::vector<std::string> Arguments() const {
    return {"--set", "security=curve", "--set", "keys.dir=" + folder_};
  }
  // Of a daemon by its name in the peers file: "worker 0".
  std::string SecretPath(const std::string& name) const {
    std::string file = name;
    file.replace(file.find(' '), 1, ".");
    return Cat(folder_, "/", file, ".secret");
  }
  std::string Secret(const std::string& name) const {
    return ReadFile(SecretPath(name)).substr(0, 40);
  }
  std::string Public(const std::string& name) const {
    const auto peers = setup::ReadPeersFile(folder_ + "/peers");
    for (const auto& [key, principal] : *peers) {
      if (setup::NameOf(principal) == name) return net::ToText(key);
    }
    ADD_FAILURE() << "no key of " << name;
    return "";
  }
  // The keys of a client of shard 0 that has the key of this daemon.
  StrangerKeys ClientKeys(const std::string& name) const {
    return {Public("shard 0"), Public(name), Secret(name)};
  }
  void RemovePeer(const std::string& name) const {
    std::string text = ReadFile(folder_ + "/peers");
    const size_t begin = text.find(name + " = ");
    ASSERT_NE(begin, std::string::npos);
    text.erase(begin, text.find('\n', begin) + 1 - begin);
    std::ofstream(folder_ + "/peers") << text;
  }

 private:
  const std::string folder_;
};

pb::Envelope HelloOf(const TestJob& job, const std::vector<std::string>& overrides, uint32_t rank) {
  const auto setup = setup::MakeSetup(job.job_file(), overrides);
  EXPECT_TRUE(setup.ok()) << setup.status().message();
  pb::Envelope hello;
  if (!setup.ok()) return hello;
  *hello.mutable_hello() = (*setup)->hello;
  hello.mutable_hello()->set_role(pb::Hello::worker);
  hello.mutable_hello()->set_rank(rank);
  hello.mutable_hello()->set_incarnation(setup::RandomIncarnation());
  hello.mutable_hello()->set_fresh(true);
  return hello;
}

// Everything that a local user could read of a running process.
std::string WhatOthersSeeOf(pid_t pid) {
  return ReadFile(Cat("/proc/", pid, "/cmdline")) + ReadFile(Cat("/proc/", pid, "/environ"));
}

TEST(Keys, ChangeNothingAndNoSecretIsSeen) {
  TestJob job(OptionsWithTwoShards());
  const Keys keys(job, "keys");
  job.StartAll(keys.Arguments());
  ASSERT_TRUE(job.WaitForTraining());
  std::string seen;
  for (TestProgram* program : {&job.server(0), &job.server(1), &job.worker(0), &job.worker(1)}) {
    seen += WhatOthersSeeOf(program->pid());
    EXPECT_THAT(ReadFile(Cat("/proc/", program->pid(), "/limits")),
                testing::ContainsRegex("Max core file size +0 +0 "));
  }
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == UndisturbedWeights()) << "other weights than without keys";
  for (const auto& entry : fs::recursive_directory_iterator(job.folder())) {
    if (entry.is_regular_file() && !entry.path().string().starts_with(keys.folder()))
      seen += ReadFile(entry.path());
  }
  EXPECT_THAT(seen, HasSubstr("security: curve"));
  for (const std::string name : {"shard 0", "shard 1", "worker 0", "worker 1"}) {
    ASSERT_EQ(keys.Secret(name).size(), 40u);
    EXPECT_TRUE(seen.find(keys.Secret(name)) == std::string::npos) << name;
  }
}

TEST(Keys, StrangersAreRefusedAndTheJobGoesOn) {
  TestJob job(OptionsWithTwoShards());
  const Keys keys(job, "keys"), other_keys(job, "other_keys");
  for (const uint32_t shard : {0, 1}) job.StartServer(shard, keys.Arguments());
  job.StartWorker(0, keys.Arguments());
  const pb::Envelope hello = HelloOf(job, {"security=curve", "keys.dir=" + keys.folder()}, 0);
  StrangerKeys unknown_key = keys.ClientKeys("worker 0");
  unknown_key.own_public = other_keys.Public("worker 0");
  unknown_key.own_secret = other_keys.Secret("worker 0");
  for (const std::optional<StrangerKeys>& stranger_keys :
       {std::optional<StrangerKeys>(), std::optional(unknown_key)}) {
    Stranger stranger(job.port(0), stranger_keys);
    stranger.SendEnvelope(hello);
    EXPECT_FALSE(stranger.Receive(1).has_value());
  }
  Stranger worker1(job.port(0), keys.ClientKeys("worker 1"));
  worker1.SendEnvelope(hello);
  const auto refusal = worker1.Receive();
  ASSERT_TRUE(refusal.has_value() && refusal->has_refuse());
  EXPECT_EQ(refusal->refuse().code(), 77u);
  EXPECT_THAT(refusal->refuse().sentence(), AllOf(HasSubstr("worker/1"), HasSubstr("worker/0")));
  EXPECT_TRUE(job.WaitForLog(
      "server", 0, Cat("its key ", other_keys.Public("worker 0"), " is not in the list")));
  job.StartWorker(1, keys.Arguments());
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == UndisturbedWeights());
}

TEST(Keys, OfEachRankAreForThatRankOnly) {
  constexpr uint32_t kRanks = 16;
  TestJob job(JobOptions{.workers = kRanks, .batch_total = kRanks});
  const Keys keys(job, "keys");
  TestProgram& server = job.StartServer(0, keys.Arguments());
  pb::Envelope hello = HelloOf(job, {"security=curve", "keys.dir=" + keys.folder()}, 0);
  for (uint32_t owner = 0; owner < kRanks; ++owner) {
    for (uint32_t claimed = 0; claimed < kRanks; ++claimed) {
      if (claimed == owner) continue;
      Stranger client(job.port(0), keys.ClientKeys(Cat("worker ", owner)));
      hello.mutable_hello()->set_rank(claimed);
      client.SendEnvelope(hello);
      const auto answer = client.Receive();
      ASSERT_TRUE(answer.has_value() && answer->has_refuse()) << owner << " as " << claimed;
      EXPECT_EQ(answer->refuse().code(), 77u);
      EXPECT_THAT(answer->refuse().sentence(),
                  AllOf(HasSubstr(Cat("worker/", owner)), HasSubstr(Cat("worker/", claimed))));
    }
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) job.StartWorker(rank, keys.Arguments());
  for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_EQ(job.worker(rank).Wait(), 0);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(Keys, AWorkerWithoutKeysIsToldAtOnceWhyItIsRefused) {
  TestJob job;
  const Keys keys(job, "keys");
  TestProgram& server = job.StartServer(0, keys.Arguments());
  ASSERT_TRUE(job.WaitForLog("server", 0, "the job as this server understands it"));
  TestProgram& worker = job.StartWorker(0, {"--set", "faults.start_timeout_s=3"});
  ASSERT_TRUE(job.WaitForLog("worker", 0, "lets in only daemons with keys"));
  EXPECT_TRUE(job.WaitForLog("server", 0, "connection from 127.0.0.1 failed: it has no keys"));
  EXPECT_EQ(worker.Wait(), 77) << worker.err();
  EXPECT_THAT(worker.err(), HasSubstr("lets in only daemons with keys"));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 143);
}

TEST(Keys, AFalseServerIsNotBelieved) {
  TestJob job;
  const Keys keys(job, "keys"), other_keys(job, "other_keys");
  TestProgram& false_server = job.StartServer(0, other_keys.Arguments());
  ASSERT_TRUE(job.WaitForLog("server", 0, "the job as this server understands it"));
  std::vector<std::string> arguments = keys.Arguments();
  arguments.insert(arguments.end(), {"--set", "faults.start_timeout_s=3"});
  TestProgram& worker = job.StartWorker(0, arguments);
  EXPECT_EQ(worker.Wait(), 77) << worker.err();
  EXPECT_THAT(worker.err(), HasSubstr(Cat("127.0.0.1:", job.port(0))));
  EXPECT_THAT(job.Log("worker", 0), HasSubstr("does not hold the pinned key"));
  false_server.Signal(SIGTERM);
  EXPECT_EQ(false_server.Wait(), 143);
  EXPECT_THAT(job.Log("server", 0), Not(HasSubstr("worker 0 (")));
}

TEST(Keys, ARevokedWorkerIsOutAtOnce) {
  JobOptions options = EndlessJobOptions(
      "faults: {on_worker_loss: shrink, heartbeat_ms: 50, suspect_after_s: 0.4, dead_after_s: "
      "1}\n");
  TestJob job(options);
  const Keys keys(job, "keys");
  job.StartAll(keys.Arguments());
  ASSERT_TRUE(job.WaitForRound(2));
  const std::string peers = ReadFile(keys.folder() + "/peers");
  keys.RemovePeer("worker 1");
  job.server(0).Signal(SIGUSR2);
  EXPECT_NE(job.worker(1).Wait(), 0);
  ASSERT_TRUE(job.WaitForLog("server", 0, "revoked"));
  const uint64_t round = job.Progress()["rounds"];
  ASSERT_TRUE(job.WaitForRound(round + 5));  // worker 0 goes on alone
  // A new process of the worker, whose own files are as they were, is refused.
  std::ofstream(keys.folder() + "/peers") << peers;
  std::vector<std::string> arguments = keys.Arguments();
  arguments.insert(arguments.end(), {"--set", "faults.start_timeout_s=1"});
  TestProgram& again = job.StartWorker(1, arguments);
  EXPECT_NE(again.Wait(), 0);
  job.server(0).Signal(SIGTERM);
  EXPECT_EQ(job.worker(0).Wait(), 143);
  EXPECT_EQ(job.server(0).Wait(), 143);
}

// The bytes that a relay between workers and server sees of a job.
std::string RecordingOf(TestJob& job, std::vector<std::string> arguments) {
  const uint16_t data_port = FreePorts(1).at(0);
  TcpLink link({job.port(0), data_port});
  arguments.insert(arguments.end(), {"--set", "servers.0.bind_host=127.0.0.2", "--set",
                                     Cat("servers.0.data_ports=[", data_port, "]")});
  job.StartAll(arguments);
  job.ExpectAllEnd(0);
  return link.Recording();
}

TEST(Keys, KeepTheWireUnreadable) {
  const std::vector<std::string> secrets = {"a_job_with_a_name", "TERN"};
  for (const bool has_keys : {false, true}) {
    TestJob job;
    const Keys keys(job, "keys");
    std::vector<std::string> arguments = has_keys ? keys.Arguments() : std::vector<std::string>();
    arguments.insert(arguments.end(), {"--set", "name=a_job_with_a_name"});
    const std::string recording = RecordingOf(job, arguments);
    EXPECT_GT(recording.size(), 100'000u);
    for (const std::string& secret : secrets) {
      const bool is_readable = recording.find(secret) != std::string::npos;
      EXPECT_EQ(is_readable, !has_keys) << secret;
    }
  }
}

TEST(Keys, AreMadeByTernRunAlsoForARestartedDaemon) {
  TestJob job(OptionsWithTwoShards());
  TestProgram& tern = job.StartTern({"run", job.job_file(), "--set", "security=curve", "--set",
                                     "train.steps=200", "--restarts", "5"});
  TestJob undisturbed(OptionsWithTwoShards());
  undisturbed.StartAll({"--set", "train.steps=200"});
  ASSERT_TRUE(job.WaitForTraining());
  const std::string arguments =
      ReadFile(Cat("/proc/", TestJob::PidOf(tern, "worker 1"), "/cmdline"));
  EXPECT_THAT(arguments, HasSubstr("--keys_fd"));
  kill(TestJob::PidOf(tern, "worker 1"), SIGKILL);
  ASSERT_TRUE(WaitUntil([&] {
    return tern.out().find("worker 1 is process", tern.out().find("worker 1 is process") + 1) !=
           std::string::npos;
  }));
  kill(TestJob::PidOf(tern, "server 1"), SIGKILL);
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  undisturbed.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == undisturbed.Weights());
}

TEST(Keys, ThatOthersMayReadEndTheDaemon) {
  TestJob job;
  const Keys keys(job, "keys");
  fs::permissions(keys.SecretPath("worker 0"), fs::perms(0644));
  TestProgram& worker = job.StartWorker(0, keys.Arguments());
  EXPECT_EQ(worker.Wait(), 78);
  EXPECT_THAT(worker.err(), AllOf(HasSubstr("worker.0.secret: saw the mode 0644"),
                                  Not(HasSubstr(keys.Secret("worker 0")))));
  TestProgram& server = job.StartServer(0, {"--set", "security=curve"});
  EXPECT_EQ(server.Wait(), 78);
  EXPECT_THAT(server.err(), HasSubstr("tern keys make DIR --job JOB"));
}

TEST(Keys, OfCheckpointsRefuseTheCheckpointsOfOthers) {
  JobOptions options;
  options.yaml = "checkpoints: {every_steps: 10}\n";
  TestJob job(options);
  const Keys keys(job, "keys");
  job.StartAll(keys.Arguments());  // without the key of checkpoints
  job.ExpectAllEnd(0);
  std::vector<std::string> arguments = keys.Arguments();
  arguments.insert(arguments.end(),
                   {"--set", Cat("keys.checkpoint=", keys.folder(), "/checkpoint.secret"), "--set",
                    "train.steps=40"});
  job.StartAll(arguments);
  for (const uint32_t rank : {0, 1}) EXPECT_NE(job.worker(rank).Wait(), 0);
  EXPECT_NE(job.server(0).Wait(), 0);
  EXPECT_THAT(job.Log("worker", 0) + job.worker(0).err(),
              AllOf(HasSubstr("step.20.safetensors is not used: it has no tag"),
                    HasSubstr("keys.checkpoint")));
}

}  // namespace
}  // namespace tern::e2e
