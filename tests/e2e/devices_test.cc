// Workers of two kinds in one job: a CPU's, and a GPU's, which runs on the CPU here
// (tests/kernels/cuda_on_host).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

constexpr char kSmall[] = R"({net: {layers: [
    {name: conv, conv: {outputs: 4, kernel: 5, stride: 3}},
    {name: norm, batch_norm: {}},
    {name: active, relu: {}},
    {name: pooled, max_pool: {kernel: 2}},
    {name: dropped, dropout: {rate: 0.2}},
    {name: scores, dense: {outputs: 10}},
    {name: loss, softmax_loss: {}}]}})";

class Devices : public testing::TestWithParam<const char*> {};

TEST_P(Devices, OfTwoKindsAgreeOnEveryBitOfTheWeights) {
  TestJob job({.steps = 100, .model = kSmall, .yaml = "evaluation: {every_steps: 50}\n"});
  const std::vector<std::string> set = {"--set", std::string("train.optimizer.name=") + GetParam()};
  const std::vector<std::string> with_gpu = {set[0], set[1], "--set", "workers.device=cuda"};
  job.StartServer(0, set);
  job.StartWorker(0, set);
  job.StartWorker(1, with_gpu, TERN_DEVICE_WORKER);
  job.ExpectAllEnd(0, 280);  // a stand-in takes its time, under a sanitizer most of all
  const nlohmann::json figures = job.Output("server.0.json");
  EXPECT_EQ(figures["replicas_agree"], true);
  EXPECT_EQ(figures["rounds"], 100);
  EXPECT_LT(figures["loss"], 2.2) << "it learns";
}

// Both kinds of worker train on, and are judged by, the same images, though a GPU makes its own of
// bytes: a job of both is a job of two CPUs, but for what rounding makes of its codes.
TEST(DevicesOfTwoKinds, SeeTheSameAugmentedImages) {
  std::vector<std::string> set;
  for (const char* word :
       {"standardize=true", "augmentation.pad=2", "augmentation.random_crop=true",
        "augmentation.mirror=true", "augmentation.brightness=60", "augmentation.contrast_min=0.5",
        "augmentation.contrast_max=1.5"})
    set.insert(set.end(), {"--set", std::string("data.") + word});
  std::vector<double> losses;
  for (const bool with_gpu : {false, true}) {
    TestJob job({.steps = 40, .model = kSmall, .yaml = "exchange: {codec: fp32}\n"});
    job.StartServer(0, set);
    job.StartWorker(0, set);
    std::vector<std::string> words = set;
    if (with_gpu) words.insert(words.end(), {"--set", "workers.device=cuda"});
    job.StartWorker(1, words, with_gpu ? TERN_DEVICE_WORKER : std::string());
    job.ExpectAllEnd(0, 280);
    const nlohmann::json figures = job.Output("server.0.json");
    EXPECT_EQ(figures["replicas_agree"], true);
    losses.push_back(figures["loss"]);
  }
  EXPECT_NEAR(losses[1], losses[0], 1e-3 * losses[0]);
}

INSTANTIATE_TEST_SUITE_P(With, Devices, testing::Values("momentum", "adam"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tern::e2e
