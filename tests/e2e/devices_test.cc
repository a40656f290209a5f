// Tests of jobs with one worker on a CPU and one on a GPU. The GPU's backend runs on the CPU here
// (tests/kernels/cuda_on_host).
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

constexpr char kSmallNet[] = R"({net: {layers: [
    {name: conv, conv: {outputs: 4, kernel: 5, stride: 3}},
    {name: norm, batch_norm: {}},
    {name: active, relu: {}},
    {name: pooled, max_pool: {kernel: 2}},
    {name: dropped, dropout: {rate: 0.2}},
    {name: scores, dense: {outputs: 10}},
    {name: loss, softmax_loss: {}}]}})";

// Settings of the job, and whether with them the model stays on the GPU from step to step.
struct DeviceCase {
  const char* name;
  std::vector<std::string> settings;
  bool stays_on_gpu = true;
  uint64_t steps = 100;
};

void PrintTo(const DeviceCase& device_case, std::ostream* out) { *out << device_case.name; }

std::vector<std::string> ArgumentsFor(const DeviceCase& device_case, bool on_gpu) {
  std::vector<std::string> arguments;
  for (const std::string& setting : device_case.settings)
    arguments.insert(arguments.end(), {"--set", setting});
  if (on_gpu) arguments.insert(arguments.end(), {"--set", "workers.device=cuda"});
  return arguments;
}

// Whether worker 1's log says that the model stays on the GPU.
bool LogSaysModelStaysOnGpu(const TestJob& job) {
  for (const auto& file : std::filesystem::directory_iterator(job.log_dir())) {
    const std::string path = file.path();
    if (path.find("tern_worker.worker.1.") != std::string::npos &&
        ReadFile(path).find("stay on the GPU") != std::string::npos)
      return true;
  }
  return false;
}

class Devices : public testing::TestWithParam<DeviceCase> {};

TEST_P(Devices, OfTwoKindsAgreeOnEveryBitOfTheWeights) {
  const uint64_t steps = GetParam().steps;
  TestJob job({.steps = steps, .model = kSmallNet, .yaml = "evaluation: {every_steps: 50}\n"});
  job.StartServer(0, ArgumentsFor(GetParam(), false));
  job.StartWorker(0, ArgumentsFor(GetParam(), false));
  job.StartWorker(1, ArgumentsFor(GetParam(), true), TERN_DEVICE_WORKER);
  job.ExpectAllEnd(0, 280);  // the GPU backend on the CPU is slow, especially under a sanitizer
  const nlohmann::json figures = job.Output("server.0.json");
  EXPECT_EQ(figures["replicas_agree"], true);
  EXPECT_EQ(figures["rounds"], steps);
  if (steps >= 100) {
    EXPECT_LT(figures["loss"], 2.2) << "it learns";
  }
  EXPECT_EQ(LogSaysModelStaysOnGpu(job), GetParam().stays_on_gpu);
}

std::string NameOf(const testing::TestParamInfo<DeviceCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    With, Devices,
    testing::Values(DeviceCase{"scalers_of_before",
                               {"exchange.scaler=previous", "exchange.scaler_margin=1",
                                "metrics.tensorboard=true"},
                               true,
                               30},
                    DeviceCase{"onebit", {"exchange.codec=onebit"}},
                    DeviceCase{
                        "odsgd_compensated",
                        {"train.algorithm=odsgd", "train.odsgd.warmup_steps=5",
                         "train.odsgd.local.name=dcasgd_a", "train.odsgd.local.momentum=0.9",
                         "train.odsgd.local.reference=prev_global", "train.weight_decay.rate=0.001",
                         "train.weight_decay.where=in_gradient"},
                        true,
                        30},
                    DeviceCase{"psgd", {"train.algorithm=psgd", "train.psgd.p=4"}, false, 30}),
    NameOf);
INSTANTIATE_TEST_SUITE_P(
    Thorough, Devices,
    testing::Values(
        DeviceCase{"momentum",
                   {"train.optimizer.name=momentum", "train.weight_decay.rate=0.001",
                    "train.weight_decay.where=in_gradient"}},
        DeviceCase{"adam",
                   {"train.optimizer.name=adam", "train.weight_decay.rate=0.001",
                    "train.weight_decay.where=local"}},
        DeviceCase{"lars_clipped_averaged",
                   {"train.optimizer.name=lars", "train.optimizer.trust_coefficient=0.05",
                    "train.clip_norm=5", "evaluation.ema_decay=0.9"},
                   true,
                   30},
        DeviceCase{"lookahead",
                   {"train.ssgd.lookahead.every_steps=3",
                    "train.schedule.rules=[{tensors: conv.*, times: 2, until_step: 5}]"}},
        DeviceCase{"rmsprop",
                   {"train.optimizer.name=rmsprop", "train.weight_decay.rate=0.001",
                    "train.weight_decay.where=local"}},
        DeviceCase{"lars_decayed",
                   {"train.optimizer.name=lars", "train.optimizer.trust_coefficient=0.05",
                    "train.weight_decay.rate=0.001", "train.weight_decay.where=in_gradient"},
                   true,
                   30},
        DeviceCase{"fp32", {"exchange.codec=fp32", "train.optimizer.name=nesterov"}},
        DeviceCase{"qsgd", {"exchange.codec=qsgd"}},
        DeviceCase{"topk",
                   {"exchange.codec=topk", "exchange.topk.ratio=0.01", "exchange.topk.momentum=0.9",
                    "train.optimizer.name=sgd"},
                   true,
                   30},
        DeviceCase{"odsgd", {"train.algorithm=odsgd", "train.odsgd.warmup_steps=10"}},
        // The GPU's nets of all sizes are planned before the first step.
        DeviceCase{
            "growing_batch", {"train.batch_growth=[{at_epoch: 0.01, batch_total: 96}]"}, true, 30}),
    NameOf);

// A worker that comes back gets the training state from the other worker: first from the worker on
// the GPU, then from the worker on the CPU.
TEST(DevicesOfTwoKinds, SendEachOtherTheState) {
  JobOptions options{.steps = 3000, .model = kSmallNet};
  options.yaml =
      "faults: {on_worker_loss: wait, heartbeat_ms: 50, suspect_after_s: 0.4, dead_after_s: 1}\n";
  TestJob job(options);
  const DeviceCase device_case{"momentum", {"train.optimizer.name=momentum"}};
  job.StartServer(0, ArgumentsFor(device_case, false));
  job.StartWorker(0, ArgumentsFor(device_case, false));
  job.StartWorker(1, ArgumentsFor(device_case, true), TERN_DEVICE_WORKER);
  for (const uint32_t rank : {0u, 1u}) {
    ASSERT_TRUE(job.WaitForRound(5 + 10 * rank));
    job.worker(rank).Signal(SIGKILL);
    ASSERT_EQ(job.worker(rank).Wait(), 128 + SIGKILL) << "it had ended before";
    job.StartWorker(rank, ArgumentsFor(device_case, rank == 1),
                    rank == 1 ? TERN_DEVICE_WORKER : "");
    ASSERT_TRUE(job.worker(rank).WaitForErr("installed the state after round"));
  }
  job.ExpectAllEnd(0, 280);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
}

// On a GPU, what codecs keep from round to round and OD-SGD's private state are in GPU memory.
// Checkpoints must contain them, too.
class KilledDevices : public testing::TestWithParam<DeviceCase> {
 protected:
  static void StartDaemons(TestJob& job) {
    job.StartServer(0, ArgumentsFor(GetParam(), false));
    job.StartWorker(0, ArgumentsFor(GetParam(), false));
    job.StartWorker(1, ArgumentsFor(GetParam(), true), TERN_DEVICE_WORKER);
  }
  static std::string UndisturbedWeights(const JobOptions& options) {
    TestJob job(options);
    StartDaemons(job);
    job.ExpectAllEnd(0, 280);
    EXPECT_TRUE(LogSaysModelStaysOnGpu(job));
    return job.Weights();
  }
  // Waits until both workers have their second checkpoint. A worker with fewer checkpoints would
  // take the other one back further.
  static void WaitForCheckpoints(const TestJob& job) {
    for (const char* rank : {"0", "1"}) {
      const std::string path = Cat(job.output_dir(), "/checkpoints/worker.", rank, "/step.10.json");
      ASSERT_TRUE(WaitUntil([&] { return std::filesystem::exists(path); }));
    }
  }
  static void KillAndWait(TestProgram& program) {
    program.Signal(SIGKILL);
    ASSERT_EQ(program.Wait(), 128 + SIGKILL) << "it had ended before";
  }
  static void ExpectResumed(TestJob& job, const std::string& weights) {
    job.ExpectAllEnd(0, 280);
    EXPECT_TRUE(job.Weights() == weights);
    EXPECT_NE(job.Log("worker", 1).find("goes on from the checkpoint"), std::string::npos);
  }
};

TEST_P(KilledDevices, ACompleteJobResumesToTheSameBytes) {
  const JobOptions options{
      .steps = 30, .model = kSmallNet, .yaml = "checkpoints: {every_steps: 5}\n"};
  const std::string weights = UndisturbedWeights(options);
  TestJob job(options);
  StartDaemons(job);
  WaitForCheckpoints(job);
  for (TestProgram* program : {&job.worker(0), &job.worker(1), &job.server(0)})
    KillAndWait(*program);
  StartDaemons(job);
  ExpectResumed(job, weights);
}

// The worker on the GPU is not killed, and goes back to a checkpoint with all others.
TEST_P(KilledDevices, OneWorkerTakesTheOtherBackAndTheBytesAreTheSame) {
  const JobOptions options{
      .steps = 200,
      .model = kSmallNet,
      .yaml =
          "checkpoints: {every_steps: 5}\nfaults: {on_worker_loss: wait, heartbeat_ms: 50, "
          "suspect_after_s: 0.4, dead_after_s: 1}\n"};
  const std::string weights = UndisturbedWeights(options);
  TestJob job(options);
  StartDaemons(job);
  WaitForCheckpoints(job);
  KillAndWait(job.worker(0));
  job.StartWorker(0, ArgumentsFor(GetParam(), false));
  ExpectResumed(job, weights);
}

INSTANTIATE_TEST_SUITE_P(With, KilledDevices,
                         testing::Values(DeviceCase{"onebit", {"exchange.codec=onebit"}}), NameOf);
INSTANTIATE_TEST_SUITE_P(
    Thorough, KilledDevices,
    testing::Values(DeviceCase{"topk",
                               {"exchange.codec=topk", "exchange.topk.momentum=0.9",
                                "train.optimizer.name=sgd", "evaluation.ema_decay=0.9"}},
                    DeviceCase{"odsgd",
                               {"train.algorithm=odsgd", "train.odsgd.warmup_steps=5",
                                "train.odsgd.local.name=dcasgd_a", "train.odsgd.local.momentum=0.9",
                                "train.odsgd.local.reference=prev_global"}}),
    NameOf);

// A worker on a GPU converts the bytes of images to floats itself. Still a job with a worker on a
// CPU and one on a GPU must give the result of a job with two CPUs, up to rounding errors.
TEST(DevicesOfTwoKinds, SeeTheSameAugmentedImages) {
  std::vector<std::string> data_arguments;
  for (const char* setting :
       {"standardize=true", "augmentation.pad=2", "augmentation.random_crop=true",
        "augmentation.mirror=true", "augmentation.brightness=60", "augmentation.contrast_min=0.5",
        "augmentation.contrast_max=1.5"})
    data_arguments.insert(data_arguments.end(), {"--set", std::string("data.") + setting});
  std::vector<double> losses;
  for (const bool with_gpu : {false, true}) {
    TestJob job({.steps = 40, .model = kSmallNet, .yaml = "exchange: {codec: fp32}\n"});
    job.StartServer(0, data_arguments);
    job.StartWorker(0, data_arguments);
    std::vector<std::string> worker_arguments = data_arguments;
    if (with_gpu) worker_arguments.insert(worker_arguments.end(), {"--set", "workers.device=cuda"});
    job.StartWorker(1, worker_arguments, with_gpu ? TERN_DEVICE_WORKER : std::string());
    job.ExpectAllEnd(0, 280);
    const nlohmann::json figures = job.Output("server.0.json");
    EXPECT_EQ(figures["replicas_agree"], true);
    losses.push_back(figures["loss"]);
  }
  EXPECT_NEAR(losses[1], losses[0], 1e-3 * losses[0]);
}

}  // namespace
}  // namespace tern::e2e
