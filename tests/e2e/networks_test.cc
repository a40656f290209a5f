// Networks with state in addition to their parameters (the running statistics of batch norm),
// trained by real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "common/tensors/safetensors.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using ::testing::HasSubstr;

constexpr char kBranchedNet[] = R"({net: {layers: [
    {name: standard, standardize: {}},
    {name: conv, conv: {outputs: 8, kernel: 3, stride: 2, bias: false}},
    {name: norm, batch_norm: {}},
    {name: active, relu: {}},
    {name: left, conv: {outputs: 8, kernel: 3, pad: 1, groups: 8}},
    {name: both, inputs: [left, active], add: {}},
    {name: joined, inputs: [both, active], concat: {}},
    {name: mean, avg_pool: {global: true}},
    {name: dropped, dropout: {rate: 0.2}},
    {name: scores, dense: {outputs: 10}},
    {name: loss, softmax_loss: {label_smoothing: 0.1}}]}})";

const tensors::Tensor* FindTensor(const tensors::TensorFile& file, const std::string& name) {
  for (const tensors::Tensor& tensor : file.tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

std::string TrainedWeights(const std::string& model) {
  TestJob job({.steps = 8, .model = model, .yaml = "evaluation: {every_steps: 4}\n"});
  job.StartAll();
  job.ExpectAllEnd(0);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
  EXPECT_THAT(job.Log("worker", 0), HasSubstr("after step 4: test accuracy"));
  return job.Weights();
}

TEST(Networks, WithNormsDropoutAndBranchesGiveTheSameBytesAgain) {
  const std::string weights = TrainedWeights(kBranchedNet);
  EXPECT_EQ(weights, TrainedWeights(kBranchedNet));
  const auto file = tensors::DecodeSafetensors(weights);
  ASSERT_TRUE(file.ok()) << file.status().message();
  for (const char* name : {"norm.running_mean", "norm.running_var"}) {
    const tensors::Tensor* statistic = FindTensor(*file, name);
    ASSERT_NE(statistic, nullptr) << name;
    EXPECT_EQ(statistic->values.size(), 8u);
    EXPECT_NE(statistic->values[0], std::string(name).ends_with("var") ? 1.f : 0.f)
        << "never updated";
  }
}

TEST(Networks, ResNet20Trains) {
  const auto file = tensors::DecodeSafetensors(TrainedWeights("{name: resnet20}"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_NE(FindTensor(*file, "layer2.0.downsample.1.running_var"), nullptr);
}

}  // namespace
}  // namespace tern::e2e
