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

INSTANTIATE_TEST_SUITE_P(With, Devices, testing::Values("momentum", "adam"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tern::e2e
