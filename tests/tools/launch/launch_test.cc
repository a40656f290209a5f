// `tern launch` with real programs: how they take part, and how they and the job end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/tools/launch/launch_fixture.h"

namespace tern::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kLeastSquares = TERN_LEAST_SQUARES, kWorkerProgram = TERN_WORKER_PROGRAM;

TEST_F(LaunchTest, NeedsNothingButAProgram) {
  TestProgram& tern = StartTern({"launch", "-n", "2", "--", "sh", "-c",
                                 "exec \"$0\" \"$TERN_JOB\" \"$TERN_RANK\"", kLeastSquares});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_EQ(tern.err(), "");
  EXPECT_THAT(
      tern.out(),
      AllOf(HasSubstr("no job file was given, so the job is tern_out/launched_job.yaml"),
            HasSubstr("codec ternary_ans, 2 workers"),
            HasSubstr("OMP_NUM_THREADS is not set, so it is "),
            HasSubstr("\n[0] y = 3.0000 x + -1.0000\n"),
            HasSubstr("\n[1] y = 3.0000 x + -1.0000\n"), HasSubstr("servers, workers      1, 2\n"),
            HasSubstr("steps                 400\n"), HasSubstr("exit code             0"),
            Not(HasSubstr("what next"))));
  const auto summary = nlohmann::json::parse(Read("tern_out/summary.json"), nullptr, false);
  EXPECT_EQ(summary["code"], 0);
  EXPECT_EQ(Read("tern_out/logs/worker.1.stdout"), "y = 3.0000 x + -1.0000\n");
}

TEST_F(LaunchTest, TheNumberOfWorkersGoesBeforeTheJobs) {
  TestProgram& tern = Launch("echo of $TERN_WORLD_SIZE; exec " + kWorkerProgram + " 3",
                             {"-n3", "--set", "output_dir=elsewhere", "--set", "workers.count=7"});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(),
              AllOf(HasSubstr("[2] of 3\n"), HasSubstr("[2] ended with 0\n"),
                    HasSubstr("servers, workers      1, 3\n"), Not(HasSubstr("no job file"))));
  EXPECT_THAT(Read("elsewhere/launched_job.yaml"), HasSubstr("  count: 3\n"));
}

TEST_F(LaunchTest, TheJobMayBeNamedByTheEnvironment) {
  TestProgram& tern =
      StartTern({"launch", "--free_ports", "--", kWorkerProgram, "3"}, {"TERN_JOB=client.yaml"});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), AllOf(HasSubstr("job                   client\n"),
                                HasSubstr("[0] ended with 0\n"), HasSubstr("[1] ended with 0\n")));
}

TEST_F(LaunchTest, GivesTheProgramsTheirEnvironmentAndNoticesThatTheyDoNotJoin) {
  TestProgram& tern = Launch("env", {"-n", "2"}, {"TERN_RANK=7", "OMP_NUM_THREADS=5"});
  EXPECT_EQ(tern.Wait(20), 64) << tern.err();
  const std::string job = std::filesystem::canonical(folder_).string() + "/out/launched_job.yaml";
  EXPECT_THAT(tern.out(),
              AllOf(HasSubstr("[0] TERN_RANK=0\n"), HasSubstr("[1] TERN_RANK=1\n"),
                    HasSubstr("[1] TERN_LOCAL_RANK=1\n"), HasSubstr("[1] TERN_WORLD_SIZE=2\n"),
                    HasSubstr("[1] TERN_JOB=" + job + "\n"), HasSubstr("[0] OMP_NUM_THREADS=5\n"),
                    Not(HasSubstr("TERN_RANK=7")), Not(HasSubstr("OMP_NUM_THREADS is not set"))));
  EXPECT_THAT(tern.err(),
              AllOf(HasSubstr("root cause: worker "),
                    HasSubstr("exited with code 0: it ended before the job did; a program joins "
                              "the job by tern.torch.ddp")));
}

TEST_F(LaunchTest, TheFirstProgramThatFailsIsTheRootCause) {
  TestProgram& tern = Launch(
      "if [ $TERN_RANK = 0 ]; then exec sleep 1000; fi; echo bad data >&2; printf half; exit 3");
  EXPECT_EQ(tern.Wait(20), 3);
  EXPECT_THAT(tern.err(), AllOf(HasSubstr("[1] bad data\n"), HasSubstr("root cause: worker 1 ("),
                                HasSubstr("exited with code 3: bad data\n"),
                                HasSubstr("out/logs/worker.1.stderr")));
  EXPECT_THAT(tern.out(), HasSubstr("\n[1] half\n"));
  EXPECT_TRUE(HasEnded(NumberBehind(tern, "worker 0 is process ")));
  EXPECT_EQ(nlohmann::json::parse(Read("out/summary.json"), nullptr, false)["code"], 3);
}

TEST_F(LaunchTest, AProgramThatExitsInTheJobEndsItAndIsTheRootCause) {
  TestProgram& tern = Launch("exec " + kWorkerProgram + " 0 1 40 7");
  EXPECT_EQ(tern.Wait(), 7);
  EXPECT_THAT(tern.err(), AllOf(HasSubstr("root cause: worker 1 ("),
                                HasSubstr("code 7: worker_program: as told\n"),
                                HasSubstr("then the job ended with code 75: worker 1 (")));
  EXPECT_THAT(tern.out(), HasSubstr("[0] ended with 75\n"));
}

TEST_F(LaunchTest, AProgramThatIsKilledEndsTheJob) {
  TestProgram& tern = Launch("exec " + kWorkerProgram + " 0 1 40 -9");
  EXPECT_EQ(tern.Wait(), 75);
  EXPECT_THAT(tern.err(),
              AllOf(HasSubstr("root cause: worker 1 ("), HasSubstr("was killed by signal 9"),
                    HasSubstr("then the job ended with code 75: worker 1 (")));
}

TEST_F(LaunchTest, AProgramThatIsKilledIsStartedAgainIfTheJobWaits) {
  TestProgram& tern =
      Launch("exec " + kWorkerProgram + " 150 1 40 -9",
             {"--restarts", "1", "--set", "faults.on_worker_loss=wait"}, {"ONCE=once"});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), AllOf(HasSubstr("was killed by signal 9 (Killed)"),
                                HasSubstr("it is started again (1 of 1)"),
                                HasSubstr("[1] ended with 0\n"), HasSubstr("1 restarts\n")));
}

TEST_F(LaunchTest, ProgramsMayGoOnAfterTheJobsEnd) {
  // Longer than the time in which a server must end.
  TestProgram& tern = Launch(kWorkerProgram + " 5 && sleep 4; echo saved");
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), AllOf(HasSubstr("[0] saved\n"), HasSubstr("[1] saved\n")));
}

TEST_F(LaunchTest, AProgramThatFailsAfterTheJobsEndIsNamed) {
  TestProgram& tern = Launch(kWorkerProgram + " 5; [ $TERN_RANK = 0 ] || exit 9");
  EXPECT_EQ(tern.Wait(), 9);
  EXPECT_THAT(tern.err(),
              AllOf(HasSubstr("the job ended in order, but afterwards a process failed"),
                    HasSubstr("root cause: worker 1 ("), HasSubstr("exited with code 9")));
}

TEST_F(LaunchTest, AStopSignalAfterTheJobsEndEndsTheProgramsThatGoOn) {
  TestProgram& tern = Launch(kWorkerProgram + " 5; echo over; exec sleep 1000");
  ASSERT_TRUE(tern.WaitForOut("[0] over\n"));
  ASSERT_TRUE(tern.WaitForOut("[1] over\n"));
  ASSERT_TRUE(WaitUntil([&] { return HasEnded(NumberBehind(tern, "server 0 is process ")); }));
  tern.Signal(SIGINT);
  EXPECT_EQ(tern.Wait(20), 130);
}

TEST_F(LaunchTest, StopsInOrder) {
  TestProgram& tern = Launch("exec " + kWorkerProgram + " 0");
  ASSERT_TRUE(tern.WaitForOut("[1] step 20\n"));
  tern.Signal(SIGINT);
  EXPECT_EQ(tern.Wait(20), 130) << tern.err();
  EXPECT_THAT(tern.out(),
              AllOf(HasSubstr("stopping in order"), HasSubstr("[0] ended with 130\n"),
                    HasSubstr("[1] ended with 130\n"), HasSubstr("exit code             130")));
}

TEST_F(LaunchTest, StopsProgramsThatHaveNotJoined) {
  TestProgram& tern = Launch("echo here; exec sleep 1000");
  ASSERT_TRUE(tern.WaitForOut("[0] here\n"));
  ASSERT_TRUE(tern.WaitForOut("[1] here\n"));
  tern.Signal(SIGTERM);
  EXPECT_EQ(tern.Wait(20), 143) << tern.err();
  for (const std::string name : {"server 0", "worker 0", "worker 1"})
    EXPECT_TRUE(HasEnded(NumberBehind(tern, name + " is process "))) << name;
}

TEST_F(LaunchTest, WhatProgramsHaveStartedEndsWithIt) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    TestProgram& tern = Launch("sleep 1000 & echo has started $!; wait", {"-n", "1"});
    ASSERT_TRUE(tern.WaitForOut("[0] has started "));
    const pid_t grandchild = NumberBehind(tern, "[0] has started "),
                worker = NumberBehind(tern, "worker 0 is process "),
                server = NumberBehind(tern, "server 0 is process ");
    ASSERT_FALSE(HasEnded(grandchild));
    tern.Signal(signal);
    EXPECT_EQ(tern.Wait(), 128 + signal);
    for (const pid_t pid : {grandchild, worker, server})
      EXPECT_TRUE(WaitUntil([&] { return HasEnded(pid); })) << pid;
  }
}

TEST_F(LaunchTest, AProgramThatCannotBeStartedIsAUsageError) {
  Write("plain.py", "print(1)\n");
  Write("no_interpreter", "#!/nonexistent/python\n");
  for (const std::string name : {"no_interpreter", "plain.py"})
    ASSERT_EQ(chmod((folder_ + "/" + name).c_str(), name == "plain.py" ? 0644 : 0755), 0);
  for (const auto& [program, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"no_such_program", "saw the program 'no_such_program', which is in no folder of PATH"},
           {"plain.py", "or with its folder: ./plain.py"},
           {"./plain.py", "which is no file that this user may execute"},
           {"./nothing", "which does not exist"}}) {
    TestProgram& tern = StartTern({"launch", "-n", "2", "--", program});
    EXPECT_EQ(tern.Wait(), 64) << program;
    EXPECT_THAT(tern.err(), HasSubstr(sentence));
    EXPECT_EQ(tern.out(), "");
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/tern_out")) << program;
  }
  TestProgram& tern = StartTern({"launch", "-n", "2", "--", "./no_interpreter"});
  EXPECT_EQ(tern.Wait(), 64);
  EXPECT_THAT(tern.err(), AllOf(HasSubstr("cannot run ./no_interpreter: "), HasSubstr("(#!)")));
  EXPECT_TRUE(HasEnded(NumberBehind(tern, "server 0 is process ")));
}

TEST_F(LaunchTest, RefusesAWrongCommandLine) {
  for (const auto& [words, sentence] : std::vector<std::pair<Words, std::string>>{
           {{"-n", "2", "python", "train.py", "--lr", "3"}, "the program goes after --"},
           {{"-n", "2", "--lr", "3", "--", "true"}, "there is no flag --lr"},
           {{"-n", "2"}, "PROGRAM is missing after --"},
           {{"-n", "2", "--"}, "PROGRAM is missing after --"},
           {{"-n", "0", "--", "true"}, "--workers: saw 0"},
           {{"-n", "two", "--", "true"}, "--workers: saw 'two'"},
           {{"-n"}, "--workers needs a value"},
           {{"--", "true"}, "give -n N, or --job JOB"}}) {
    Words all = {"launch"};
    all.insert(all.end(), words.begin(), words.end());
    TestProgram& tern = StartTern(all);
    EXPECT_EQ(tern.Wait(), 64) << sentence;
    EXPECT_THAT(tern.err(), HasSubstr(sentence));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/tern_out"));
}

TEST_F(LaunchTest, EachJobHasItsCommand) {
  TestProgram& run = StartTern({"run", "client.yaml", "--set", "train.tensors=table.json"});
  EXPECT_EQ(run.Wait(), 78);
  EXPECT_THAT(run.err(), HasSubstr("use `tern launch --job client.yaml -- PROGRAM`"));
  Write("own.yaml",
        "output_dir: out\nservers: [{address: \"127.0.0.1:1\"}]\nworkers: {count: 2}\n"
        "model: {name: lenet}\ndata: {dir: /nothing}\n"
        "train: {batch_total: 8, steps: 3, schedule: {name: fixed, learning_rate: 0.1}}\n");
  TestProgram& launch = StartTern({"launch", "--job", "own.yaml", "--", "true"});
  EXPECT_EQ(launch.Wait(), 78);
  EXPECT_THAT(launch.err(), AllOf(HasSubstr("own.yaml: train.compute: saw "),
                                  HasSubstr("`tern run own.yaml` starts this job")));
}

TEST_F(LaunchTest, ProgramsOfAJobWithKeysGetADescriptor) {
  const std::string has_keys = "test -s /proc/self/fd/$TERN_KEYS_FD && echo it has keys";
  TestProgram& tern =
      StartTern({"launch", "-n", "1", "--set", "security=curve", "--", "/bin/sh", "-c", has_keys});
  tern.Wait();
  EXPECT_THAT(tern.out(), HasSubstr("[0] it has keys"));
}

}  // namespace
}  // namespace tern::e2e
