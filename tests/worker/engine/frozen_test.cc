// Nets with frozen parameters, which are not trained: on a CPU and, through cuda_on_host, on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "models/graph/weights.h"
#include "tests/worker/engine/problem.h"

namespace tern::engine {
namespace {

// A net with some parameters frozen, and with the values, images and labels of `problem`.
struct FrozenNet {
  FrozenNet(const Problem& problem, const std::vector<std::string>& freeze, bool training = true)
      : problem(problem),
        table(*models::MakeParameterTable(problem.net, freeze)),
        parameters(table.total),
        gradients(table.total, -77),
        frozen(table.frozen_total),
        statistics(problem.statistics) {
    for (const models::Parameter& p : problem.table.parameters) {
      const auto place = [&](const std::vector<models::Parameter>& list,
                             std::vector<float>* arena) {
        for (const models::Parameter& mine : list) {
          if (mine.name != p.name) continue;
          EXPECT_EQ(mine.number, p.number);
          std::copy_n(&problem.parameters[p.offset], p.count, &(*arena)[mine.offset]);
        }
      };
      place(table.parameters, &parameters);
      place(table.frozen, &frozen);
    }
    auto made_net = Net::Make(problem.net,
                              {.device = DeviceUnderTest(),
                               .batch = problem.batch,
                               .is_training = training,
                               .seed = Problem::kSeed,
                               .freeze = freeze},
                              {.parameters = parameters.data(),
                               .gradients = training ? gradients.data() : nullptr,
                               .statistics = statistics.data(),
                               .frozen = frozen.data()});
    CHECK(made_net.ok()) << made_net.status().message();
    net = std::move(*made_net);
  }

  double Forward() {
    return net->Forward({problem.images, problem.labels, problem.batch}, nullptr);
  }

  const Problem& problem;
  models::ParameterTable table;
  std::vector<float> parameters, gradients, frozen, statistics;
  std::unique_ptr<Net> net;
};

TEST(Frozen, LeavesTheGradientsOfTheOthersAsTheyAre) {
  for (const std::vector<std::string>& freeze : {std::vector<std::string>{"conv1.*"},
                                                 {"conv*"},
                                                 {"conv2.*"},
                                                 {"fc3.*"},
                                                 {"conv2.weight"},
                                                 {"fc3.bias", "conv1.bias"},
                                                 {"*.weight"},
                                                 {"conv*", "fc3.*"}}) {
    Problem problem(MakeLeNet(pb::Model::same), 3);
    auto net = problem.MakeNet();
    const double loss = net->Forward({problem.images, problem.labels, 3}, nullptr);
    net->Backward(nullptr);
    FrozenNet frozen_net(problem, freeze);
    std::vector<uint32_t> needed, ready;
    EXPECT_EQ(frozen_net.net->Forward({problem.images, problem.labels, 3}, nullptr,
                                      [&](uint32_t p) {
                                        needed.push_back(p);
                                        return true;
                                      }),
              loss);
    frozen_net.net->Backward([&](uint32_t p) { ready.push_back(p); });
    std::vector<uint32_t> all(frozen_net.table.parameters.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(needed, all);
    std::reverse(all.begin(), all.end());
    EXPECT_EQ(ready, all);
    EXPECT_LT(frozen_net.table.total, problem.table.total);
    for (const models::Parameter& p : frozen_net.table.parameters) {
      const models::Parameter& same = problem.table.parameters[p.number];
      ASSERT_EQ(same.name, p.name);
      EXPECT_TRUE(std::equal(&frozen_net.gradients[p.offset],
                             &frozen_net.gradients[p.offset] + p.count,
                             &problem.gradients[same.offset]))
          << p.name << " with " << testing::PrintToString(freeze);
    }
  }
}

// A residual block: e is a batch norm that also adds c and applies the ReLU.
pb::NetDef BlockNet() {
  return MakeChain(
      "conv { outputs: 16 kernel: 3 pad: 1 }; batch_norm {}; relu {};"
      "conv { outputs: 16 kernel: 3 pad: 1 }; batch_norm {}; add {} inputs: 'c' inputs: 'e'; relu "
      "{};"
      "conv { outputs: 8 kernel: 3 }; batch_norm {}; dense { outputs: 4 }",
      MakeImageShape(3, 8, 8), 4);
}

// Statistics that differ from the moments of a batch.
void DrawStatistics(Problem* problem) {
  for (size_t i = 0; i < problem->statistics.size(); ++i)
    problem->statistics[i] += 0.3f * Problem::DrawUniform(7, 4, i);
}

TEST(Frozen, BatchNormComputesAsInEvaluation) {
  Problem problem(BlockNet(), 4);
  DrawStatistics(&problem);
  FrozenNet training(problem, {"b.*", "e.*", "i.*"});
  FrozenNet evaluation(problem, {}, /*training=*/false);
  EXPECT_NEAR(training.Forward(), evaluation.Forward(), 1e-6);
  training.net->Backward(nullptr);
  EXPECT_EQ(training.statistics, problem.statistics);
  FrozenNet usual(problem, {});
  EXPECT_GT(std::abs(usual.Forward() - evaluation.Forward()), 1e-3);
}

TEST(Frozen, OnlyBatchNormsWithoutTrainedParametersKeepTheirStatistics) {
  Problem problem(BlockNet(), 4);
  DrawStatistics(&problem);
  FrozenNet net(problem, {"b.*", "e.weight"});
  net.Forward();
  for (const models::Statistic& s : net.table.statistics) {
    EXPECT_EQ(s.is_frozen, s.name.starts_with("b.")) << s.name;
    const bool is_same = std::equal(&net.statistics[s.offset], &net.statistics[s.offset] + s.count,
                                    &problem.statistics[s.offset]);
    EXPECT_EQ(is_same, s.is_frozen) << s.name;
  }
}

// The slope of the loss along the gradient is the gradient's squared norm.
TEST(Frozen, GradientsThroughFrozenBatchNormsAreThoseOfTheLoss) {
  for (const std::vector<std::string>& freeze :
       {std::vector<std::string>{"b.*", "e.*", "i.*"}, {"e.*"}, {"b.*", "d.*"}, {"e.weight"}}) {
    Problem problem(BlockNet(), 4);
    DrawStatistics(&problem);
    FrozenNet net(problem, freeze);
    net.Forward();
    net.net->Backward(nullptr);
    const std::vector<float> parameters = net.parameters, gradients = net.gradients;
    double squared_norm = 0;
    for (const float g : gradients) squared_norm += double{g} * g;
    const double step = 2e-3 / std::sqrt(squared_norm);
    const auto loss_at = [&](double distance) {
      for (size_t i = 0; i < parameters.size(); ++i)
        net.parameters[i] = static_cast<float>(parameters[i] + distance * gradients[i]);
      return net.Forward();
    };
    const double slope = (loss_at(step) - loss_at(-step)) / (2 * step);
    EXPECT_NEAR(slope / squared_norm, 1, 0.02) << testing::PrintToString(freeze);
  }
}

}  // namespace
}  // namespace tern::engine
