// `tern run` with real processes: orderly and failed ends of a job, and their messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/net/tcp_listener.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

bool ProcessExists(pid_t pid) { return kill(pid, 0) == 0; }

TEST(Run, TrainsToTheEndAndShowsATable) {
  TestJob job;
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), AllOf(HasSubstr("server 0 is process"),
                                HasSubstr("steps                 20\n"), HasSubstr("test accuracy"),
                                HasSubstr("replicas              agree"), HasSubstr("up-link"),
                                HasSubstr("exit code             0"), Not(HasSubstr("\r"))));
  EXPECT_EQ(tern.err(), "");
  const nlohmann::json summary = job.Output("summary.json");
  EXPECT_EQ(summary["code"], 0);
  EXPECT_EQ(summary["rounds"], 20);
  EXPECT_EQ(summary["samples"], 160);
  EXPECT_EQ(summary["restarts"], 0);
  EXPECT_EQ(summary["test_samples"], 60);
  EXPECT_EQ(summary["replicas_agree"], true);
  EXPECT_GT(summary["up_ratio"], 15);
  EXPECT_TRUE(std::filesystem::exists(job.output_dir() + "/weights.safetensors"));
}

TEST(Run, SupportsOverridesTwoShardsAndFreePorts) {
  TestJob job({.servers = 2});
  // An ordinary user cannot bind port 1; --free_ports sets another port.
  TestProgram& tern = job.StartTern({"run", job.job_file(), "--set", "train.steps=7",
                                     "--set=servers[0].address=127.0.0.1:1", "--set",
                                     Cat("output_dir=", job.folder(), "/elsewhere"), "--free_ports",
                                     "--log_dir", job.folder() + "/my_logs"});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), AllOf(HasSubstr("steps                 7\n"),
                                HasSubstr("servers, workers      2, 2")));
  EXPECT_TRUE(std::filesystem::exists(job.folder() + "/elsewhere/summary.json"));
  EXPECT_TRUE(std::filesystem::exists(job.folder() + "/my_logs/worker.1.stderr"));
  EXPECT_FALSE(std::filesystem::exists(job.output_dir()));
}

// Worker 1's metrics port is taken, so the page is at another port, which is printed.
TEST(Run, FreePortsAreThoseOfThePageToo) {
  const auto holder = net::TcpListener::Listen("127.0.0.1", 0);
  ASSERT_TRUE(holder.ok());
  const uint16_t taken = (*holder)->port();
  const std::string port = Cat("metrics.port=", taken - 101);
  TestJob job;
  TestProgram& tern = job.StartTern(
      {"run", job.job_file(), "--set", "train.steps=7", "--set", port, "--free_ports"});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), HasSubstr("the page of this job is http://127.0.0.1:"));
  EXPECT_THAT(tern.out(), Not(HasSubstr(Cat("http://127.0.0.1:", taken - 101, "/"))));
}

// The port of worker 1's metrics would be the one of server 0.
TEST(Run, RefusesOnePortForTwoDaemonsUnlessItChoosesThePorts) {
  TestJob job;
  const std::string port = Cat("metrics.port=", job.port(0) - 101);
  const std::vector<std::string> arguments = {"run",           job.job_file(), "--set",
                                              "train.steps=7", "--set",        port};
  TestProgram& refused = job.StartTern(arguments);
  EXPECT_EQ(refused.Wait(), 78);
  EXPECT_THAT(refused.err(),
              HasSubstr(Cat("metrics port of worker 1: saw 127.0.0.1:", job.port(0),
                            " of metrics.port, which is also the port of server 0")));
  EXPECT_FALSE(std::filesystem::exists(job.output_dir()));

  std::vector<std::string> with_free_ports = arguments;
  with_free_ports.push_back("--free_ports");
  TestProgram& tern = job.StartTern(with_free_ports);
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
}

TEST(Run, ASignalToADaemonThatStartsWaitsUntilItIsReady) {
  TestJob job;
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  for (const std::string name : {"server 0", "worker 1"}) {
    ASSERT_TRUE(tern.WaitForOut(name + " is process"));
    for (const int signal : {SIGUSR1, SIGUSR2}) kill(TestJob::PidOf(tern, name), signal);
  }
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
}

TEST(Run, ABadJobStartsNoProcessAndNamesAllErrors) {
  TestJob job({.yaml = "exchange: {codec: ternray}\nfaults: {heartbeat_ms: 1}\n"});
  TestProgram& tern = job.StartTern({"run", job.job_file(), "--set", "train.stesp=3"});
  EXPECT_EQ(tern.Wait(), 78);
  EXPECT_THAT(tern.err(), AllOf(HasSubstr("exchange.codec"), HasSubstr("did you mean ternary"),
                                HasSubstr("faults.heartbeat_ms"), HasSubstr("--set train.stesp=3"),
                                HasSubstr("did you mean train.steps")));
  EXPECT_EQ(tern.out(), "");
  EXPECT_FALSE(std::filesystem::exists(job.output_dir()));
}

TEST(Run, RefusesAnOutputFolderWithALinkInPlaceOfAFolder) {
  TestJob job;
  const std::string target = job.folder() + "/theirs";
  std::filesystem::create_directory(target);
  std::filesystem::create_directory(job.output_dir());
  std::filesystem::create_directory_symlink(target, job.output_dir() + "/logs");
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  EXPECT_EQ(tern.Wait(), 74);
  EXPECT_THAT(tern.err(), HasSubstr("/logs: it is a symbolic link"));
  EXPECT_TRUE(std::filesystem::is_empty(target));
  EXPECT_FALSE(std::filesystem::exists(job.output_dir() + "/run.lock"));
}

TEST(Run, WrongArgumentsAreUsageErrors) {
  TestJob job;
  TestProgram& unknown_command = job.StartTern({"trian"});
  EXPECT_EQ(unknown_command.Wait(), 64);
  EXPECT_THAT(unknown_command.err(), HasSubstr("there is no command 'trian'; known: run, "));
  EXPECT_EQ(job.StartTern({"run"}).Wait(), 64);
  EXPECT_EQ(job.StartTern({"run", job.job_file(), "--restarts", "many"}).Wait(), 64);
  EXPECT_EQ(job.StartTern({}).Wait(), 64);
  TestProgram& help = job.StartTern({"help"});
  EXPECT_EQ(help.Wait(), 0);
  EXPECT_THAT(help.out(),
              AllOf(HasSubstr("  run "), HasSubstr("  check "), HasSubstr("  convert onnx ")));
  TestProgram& version = job.StartTern({"--version"});
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_THAT(version.out(), HasSubstr("tern version "));
}

void ExpectOrderlyStop(int signal, int exit_code) {
  TestJob job(EndlessJobOptions());
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  ASSERT_TRUE(job.WaitForTraining());
  ASSERT_TRUE(tern.WaitForOut(" img/s  waiting "));
  tern.Signal(signal);
  EXPECT_EQ(tern.Wait(), exit_code) << tern.err();
  EXPECT_THAT(tern.out(),
              AllOf(HasSubstr("stopping in order"), HasSubstr("replicas              agree")));
  const nlohmann::json report_of_worker0 = job.Output("worker.0.json"),
                       report_of_worker1 = job.Output("worker.1.json");
  EXPECT_GT(report_of_worker0["rounds"], 0);
  EXPECT_EQ(report_of_worker0["rounds"], report_of_worker1["rounds"]);
  EXPECT_EQ(job.Output("summary.json")["rounds"], report_of_worker0["rounds"]);
  EXPECT_EQ(job.Output("summary.json")["code"], exit_code);
  EXPECT_TRUE(std::filesystem::exists(job.output_dir() + "/weights.safetensors"));
}

TEST(Run, SigtermStopsTheJobInOrder) { ExpectOrderlyStop(SIGTERM, 143); }
TEST(Run, SigintStopsTheJobInOrder) { ExpectOrderlyStop(SIGINT, 130); }
TEST(Run, SighupStopsTheJobInOrder) { ExpectOrderlyStop(SIGHUP, 143); }

TEST(Run, ASecondSignalStopsAtOnce) {
  TestJob job(EndlessJobOptions());
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  ASSERT_TRUE(job.WaitForTraining());
  // A suspended worker sends no gradient: the round, and so the job, cannot end in order.
  const pid_t worker_pid = TestJob::PidOf(tern, "worker 1");
  ASSERT_GT(worker_pid, 0);
  kill(worker_pid, SIGSTOP);
  tern.Signal(SIGTERM);
  ASSERT_TRUE(tern.WaitForOut("stopping in order"));
  tern.Signal(SIGTERM);
  EXPECT_EQ(tern.Wait(), 143) << tern.err();
  EXPECT_FALSE(ProcessExists(worker_pid));
}

TEST(Run, ALostWorkerEndsTheJobAndIsNamed) {
  TestJob job(EndlessJobOptions());
  TestProgram& tern = job.StartTern(
      {"run", job.job_file(), "--restarts", "5"});  // has no effect, because on_worker_loss is fail
  ASSERT_TRUE(job.WaitForTraining());
  const pid_t worker_pid = TestJob::PidOf(tern, "worker 1");
  ASSERT_GT(worker_pid, 0);
  kill(worker_pid, SIGKILL);
  EXPECT_EQ(tern.Wait(), 75);
  EXPECT_THAT(tern.err(), AllOf(HasSubstr(Cat("root cause: worker 1 (process ", worker_pid,
                                              ") was killed by signal 9")),
                                HasSubstr("worker.1.stderr"),
                                HasSubstr("then the job ended with code 75: worker 1 ("),
                                HasSubstr("was lost at round ")));
  EXPECT_EQ(job.Output("summary.json")["code"], 75);
  EXPECT_EQ(job.Output("summary.json")["restarts"], 0);
}

TEST(Run, AStoppedWorkerIsNamedAndKilled) {
  TestJob job(
      EndlessJobOptions("faults: {dead_after_s: 1, suspect_after_s: 0.6, heartbeat_ms: 100}\n"));
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  ASSERT_TRUE(job.WaitForTraining());
  const pid_t worker_pid = TestJob::PidOf(tern, "worker 1");
  ASSERT_GT(worker_pid, 0);
  kill(worker_pid, SIGSTOP);
  EXPECT_EQ(tern.Wait(), 75);
  EXPECT_THAT(tern.err(), AllOf(HasSubstr("root cause: server 0 ended it: worker 1 ("),
                                HasSubstr("silent for 1.")));
  EXPECT_FALSE(ProcessExists(worker_pid));
}

TEST(Run, ALostWorkerIsRestartedIfTheJobWaits) {
  JobOptions options;
  options.steps = 400;
  options.yaml =
      "faults: {on_worker_loss: wait, dead_after_s: 1, suspect_after_s: 0.6, heartbeat_ms: 100}\n";
  TestJob job(options);
  TestProgram& tern = job.StartTern({"run", job.job_file(), "--restarts", "1"});
  ASSERT_TRUE(job.WaitForTraining());
  const pid_t worker_pid = TestJob::PidOf(tern, "worker 1");
  ASSERT_GT(worker_pid, 0);
  kill(worker_pid, SIGKILL);
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(
      tern.out(),
      AllOf(HasSubstr("was killed by signal 9 (Killed)"), HasSubstr("it is started again (1 of 1)"),
            testing::ContainsRegex("worker 1 is back and trains on: it has done step [1-9]"),
            HasSubstr("steps                 400\n"), HasSubstr("replicas              agree")));
  EXPECT_NE(TestJob::PidOf(tern, "worker 1"), worker_pid);
  EXPECT_EQ(job.Output("summary.json")["restarts"], 1);
}

TEST(Run, ALostServerIsRestarted) {
  JobOptions options;
  options.steps = 400;
  TestJob job(options);
  TestProgram& tern = job.StartTern({"run", job.job_file(), "--restarts", "1"});
  ASSERT_TRUE(job.WaitForTraining());
  const pid_t server_pid = TestJob::PidOf(tern, "server 0");
  ASSERT_GT(server_pid, 0);
  kill(server_pid, SIGKILL);
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_EQ(job.Output("summary.json")["rounds"], 400);
  EXPECT_EQ(job.Output("summary.json")["restarts"], 1);
}

TEST(Run, ABadDataFolderIsTheRootCauseAndEndsTheJobAtOnce) {
  TestJob job;
  TestProgram& tern =
      job.StartTern({"run", job.job_file(), "--set", "data.dir=" + job.folder() + "/nothing",
                     "--set", "workers.threads=1024"});
  EXPECT_EQ(tern.Wait(20), 65) << tern.err();
  EXPECT_THAT(tern.out(), HasSubstr("warning: workers.threads is 1024, but this machine gives"));
  EXPECT_THAT(tern.err(), AllOf(HasSubstr("root cause: worker "),
                                HasSubstr("exited with code 65: "), HasSubstr("/nothing")));
}

TEST(Run, ReportsAPortInUse) {
  TestJob job, other_job(EndlessJobOptions());
  TestProgram& server = other_job.StartServer(0);
  ASSERT_TRUE(WaitUntil([&] { return !other_job.Progress().is_null(); })) << server.err();
  TestProgram& tern = job.StartTern(
      {"run", job.job_file(), "--set", Cat("servers.0.address=127.0.0.1:", other_job.port(0))});
  EXPECT_EQ(tern.Wait(20), 69) << tern.err();
  EXPECT_THAT(tern.err(),
              AllOf(HasSubstr("root cause: server 0"), HasSubstr(Cat(other_job.port(0)))));
}

TEST(Run, ReportsAMissingProgram) {
  TestJob job;
  // Runs a copy of tern that is alone in its folder. PATH does not have the other programs either.
  const std::string tern_folder = job.folder() + "/alone";
  std::filesystem::create_directories(tern_folder);
  std::filesystem::copy(TestJob::BinaryPath("tern"), tern_folder + "/tern");
  TestProgram& tern = job.Start(
      "env", "/usr/bin/env", {"PATH=/usr/bin:/bin", tern_folder + "/tern", "run", job.job_file()});
  EXPECT_EQ(tern.Wait(), 69);
  EXPECT_THAT(tern.err(),
              HasSubstr("cannot find the program tern_server: it is neither in " + tern_folder));
}

TEST(Run, ItsChildrenDieWithIt) {
  TestJob job(EndlessJobOptions());
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  ASSERT_TRUE(job.WaitForTraining());
  const std::vector<pid_t> child_pids = {TestJob::PidOf(tern, "server 0"),
                                         TestJob::PidOf(tern, "worker 0"),
                                         TestJob::PidOf(tern, "worker 1")};
  tern.Signal(SIGKILL);
  EXPECT_EQ(tern.Wait(), 128 + SIGKILL);
  for (const pid_t child_pid : child_pids) {
    ASSERT_GT(child_pid, 0);
    EXPECT_TRUE(WaitUntil([&] {
      const std::string proc_stat = ReadFile(Cat("/proc/", child_pid, "/stat"));
      // True once the process has ended. Until its new parent reaps it, its state is Z (zombie).
      return proc_stat.empty() || proc_stat.find(") Z ") != std::string::npos;
    })) << child_pid;
  }
}

}  // namespace
}  // namespace tern::e2e
