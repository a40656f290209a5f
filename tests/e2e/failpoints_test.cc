// Drills with failpoints (--fail): disks that are full, slow or torn, messages that are lost,
// connections that are cut, clocks that jump, processes that die at a step. Jobs that survive must
// end with the same weights as an undisturbed run, byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The arguments that switch failpoints on.
std::vector<std::string> Fail(const std::vector<std::string>& failpoints) {
  std::vector<std::string> arguments;
  for (const std::string& failpoint : failpoints)
    arguments.insert(arguments.end(), {"--fail", failpoint});
  return arguments;
}

JobOptions OptionsWithCheckpoints() {
  JobOptions options;
  options.steps = 60;
  options.yaml =
      "faults: {on_worker_loss: wait, heartbeat_ms: 50, suspect_after_s: 0.4, dead_after_s: 1}\n"
      "checkpoints: {every_steps: 10}\n";
  return options;
}

const std::string& UndisturbedWeights() {
  static const std::string weights = [] {
    TestJob job(OptionsWithCheckpoints());
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

struct DrillCase {
  std::string name;
  std::vector<std::string> of_server, of_worker0;  // their failpoints
};

// Faults that the job bears without a restart.
class Drill : public testing::TestWithParam<DrillCase> {};

TEST_P(Drill, EndsWithTheSameBytes) {
  TestJob job(OptionsWithCheckpoints());
  job.StartServer(0, Fail(GetParam().of_server));
  job.StartWorker(0, Fail(GetParam().of_worker0));
  job.StartWorker(1);
  ExpectEndsUndisturbed(job);
  const bool is_of_worker = !GetParam().of_worker0.empty();
  const std::string log = job.Log(is_of_worker ? "worker" : "server", 0);
  EXPECT_THAT(log, testing::ContainsRegex("failpoint .*: hit [0-9]+ fires"));
}

INSTANTIATE_TEST_SUITE_P(
    Each, Drill,
    testing::Values(
        DrillCase{"ConnectionsOfAWorkerCut", {}, {"net.send=cut@every:80"}},
        DrillCase{"ConnectionsOfTheServerCut", {"net.receive=cut@every:150"}, {}},
        DrillCase{"SlowDisk", {}, {"disk.write=delay:0.2@every:2"}},
        DrillCase{"SlowThreads", {}, {"thread.coder=delay:0.01", "net.receive=delay:0.01@every:5"}},
        DrillCase{"WorkersClockAnHourAhead", {}, {"clock=step:+3600@step:20"}},
        DrillCase{"ServersClockAnHourAhead", {"clock=step:+3600@200"}, {}},
        DrillCase{"ClocksBack", {"clock=step:-5@200"}, {"clock=step:-3600@step:20"}},
        DrillCase{"AWorkerHangsForAMoment", {}, {"thread.net=hang:1.5@step:20"}}),
    [](const testing::TestParamInfo<DrillCase>& info) { return info.param.name; });
// What is lost on a connection that stays open is repeated after four seconds.
INSTANTIATE_TEST_SUITE_P(
    Thorough, Drill,
    testing::Values(DrillCase{"MessagesOfAWorkerLost", {}, {"net.send=drop@step:20"}},
                    DrillCase{"MessagesOfTheServerLost", {"net.send=drop@every:301"}, {}}),
    [](const testing::TestParamInfo<DrillCase>& info) { return info.param.name; });

TEST(DiesAtAStep, AndTheRestartedWorkerContinues) {
  TestJob job(OptionsWithCheckpoints());
  TestProgram& tern = job.StartTern({"run", job.job_file(), "--restarts", "1", "--fail",
                                     "worker.1:thread.compute=die@step:20", "--fail",
                                     "server.0:net.send=delay:0.001@every:10"});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_TRUE(job.Weights() == UndisturbedWeights());
  EXPECT_EQ(job.Output("summary.json")["restarts"], 1) << "which has no failpoint";
}

TEST(RunWithFailpoints, RefusesThoseThatTheJobDoesNotHave) {
  TestJob job;
  for (const auto& [value, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"worker.2:disk.write=full", "expected ROLE.RANK:FAILPOINT"},
           {"worker.1", "expected ROLE.RANK:FAILPOINT"},
           {"worker.1:thread.lane=hang", "tern_worker has no place 'thread.lane'"},
           {"server.0:disk.write=fill", "disk.write has no action 'fill'"}}) {
    TestProgram& tern = job.StartTern({"run", job.job_file(), "--fail", value});
    EXPECT_EQ(tern.Wait(), 64) << value;
    EXPECT_THAT(tern.err(), HasSubstr(sentence)) << value;
  }
}

// Nobody can write the weights, but they were evaluated.
TEST(FullDisksOfAllWorkers, EndTheJobWith74AndTheAccuracyIsReported) {
  TestJob job;
  TestProgram& tern = job.StartTern({"run", job.job_file(), "--fail", "worker.0:disk.write=full",
                                     "--fail", "worker.1:disk.write=full"});
  EXPECT_EQ(tern.Wait(), 74) << tern.err();
  EXPECT_THAT(tern.out(), HasSubstr("test accuracy "));
  for (const char* name : {"server.0.json", "summary.json"}) {
    EXPECT_TRUE(job.Output(name).contains("accuracy")) << name;
    EXPECT_EQ(job.Output(name)["code"], 74) << name;
  }
}

// All that the disk of worker 0 has to take is refused, from the first checkpoint to the weights.
TEST(FullDiskOfTheLowestRank, EndsTheJobWith74AndAnotherWorkerWritesTheWeights) {
  TestJob job(OptionsWithCheckpoints());
  job.StartServer(0);
  job.StartWorker(0, Fail({"disk.write=full"}));
  job.StartWorker(1);
  job.ExpectAllEnd(74);
  for (TestProgram* program : {&job.server(0), &job.worker(0), &job.worker(1)})
    EXPECT_THAT(program->err(), HasSubstr("No space left on device"));
  EXPECT_TRUE(job.Weights() == UndisturbedWeights());
  for (const auto& entry : fs::recursive_directory_iterator(job.output_dir()))
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".tmp.")));
}

// A job whose servers have its state, with asgd all of it, and write only the last checkpoint.
JobOptions OptionsWithLastCheckpoint(const std::string& train) {
  JobOptions options;
  options.steps = 30;
  options.yaml = Cat("  ", train,
                     "\nexchange: {codec: fp32, scaler: per_worker, chunk_kib: 256}\n"
                     "checkpoints: {every_steps: 1000, shard_every_steps: 0}\n");
  return options;
}

class FullDiskOfAServer : public testing::TestWithParam<const char*> {};

// (The first file is run.json.)
TEST_P(FullDiskOfAServer, AtTheLastCheckpointEndsItWith74AndIsInTheTable) {
  TestJob job(OptionsWithLastCheckpoint(GetParam()));
  job.StartServer(0, Fail({"disk.write=full@2"}));
  job.StartWorker(0);
  job.StartWorker(1);
  EXPECT_EQ(job.server(0).Wait(), 74);
  EXPECT_THAT(job.server(0).err(),
              AllOf(HasSubstr("the last checkpoint, of step 30: "), HasSubstr("No space left")));
  EXPECT_THAT(job.Log("server", 0), HasSubstr("1 COULD NOT BE WRITTEN"));
  EXPECT_EQ(job.Output("server.0.json")["code"], 74);
  for (const uint32_t rank : {0, 1}) EXPECT_EQ(job.worker(rank).Wait(), 0);
}
INSTANTIATE_TEST_SUITE_P(Each, FullDiskOfAServer,
                         testing::Values("algorithm: asgd", "parameters: central"));

TEST(FullDiskOfAnotherServer, AtTheLastCheckpointFailsTheRun) {
  JobOptions options = OptionsWithLastCheckpoint("algorithm: asgd");
  options.servers = 2;
  TestJob job(options);
  TestProgram& tern =
      job.StartTern({"run", job.job_file(), "--fail", "server.1:disk.write=full@2"});
  EXPECT_EQ(tern.Wait(), 74);
  EXPECT_THAT(tern.err(),
              AllOf(HasSubstr("server 1 "), HasSubstr("the last checkpoint, of step ")));
}

// The state of one checkpoint cannot be written, and the manifest of the next gets no name.
// Everybody hears of it. (The first file is run.json.)
TEST(FailedCheckpoints, AreOnTheScreenAndInTheSummaryAndTheJobGoesOn) {
  TestJob job(OptionsWithCheckpoints());
  TestProgram& tern = job.StartTern({"run", job.job_file(), "--fail", "worker.1:disk.write=full@2",
                                     "--fail", "worker.1:disk.rename=full@3"});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_TRUE(job.Weights() == UndisturbedWeights());
  EXPECT_THAT(tern.out(), HasSubstr("checkpoint could not be written"));
  EXPECT_EQ(job.Output("summary.json")["failed_checkpoints"], 2);
  EXPECT_THAT(job.Log("worker", 1),
              AllOf(HasSubstr("No space left on device"), HasSubstr("cannot rename")));
  const std::string folder = job.output_dir() + "/checkpoints/worker.1";
  size_t num_states = 0, num_manifests = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    num_states += entry.path().extension() == ".safetensors" ? 1 : 0;
    num_manifests +=
        entry.path().filename().string().starts_with("step.") && entry.path().extension() == ".json"
            ? 1
            : 0;
  }
  EXPECT_EQ(num_states, num_manifests) << "no state without a manifest is left";
}

// The disk says that it has written everything, and has half of it. The job goes on from the
// checkpoint before.
TEST(TornCheckpoint, IsReportedAndThePreviousOneUsed) {
  TestJob job(OptionsWithCheckpoints());
  job.StartServer(0);
  job.StartWorker(0);
  // The first three writes are run.json, and the state and the manifest of step 10. What follows is
  // torn, until the worker dies with all others.
  job.StartWorker(1, Fail({"disk.write=torn@4+", "thread.compute=die@step:25"}));
  EXPECT_EQ(job.worker(1).Wait(), 128 + SIGKILL);
  for (TestProgram* program : {&job.server(0), &job.worker(0)}) {
    program->Signal(SIGKILL);
    program->Wait();
  }
  job.StartAll();
  ExpectEndsUndisturbed(job);
  EXPECT_THAT(job.Log("worker", 1),
              AllOf(HasSubstr("is not used"), HasSubstr("goes on from the checkpoint of step 10")));
}

}  // namespace
}  // namespace tern::e2e
