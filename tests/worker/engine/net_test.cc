#include "worker/engine/net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/worker/engine/problem.h"
#include "tests/worker/engine/reference_net.h"
#include "worker/engine/softmax_loss.h"

namespace tern::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Net, ReportsGradientsLastLayerFirst) {
  Problem problem(LeNet(pb::Model::same), 2);
  auto net = problem.Make();
  net->Forward({problem.images, problem.labels, 2}, nullptr);
  std::vector<uint32_t> order;
  std::vector<float> when_ready(problem.table.total);
  net->Backward([&](uint32_t p) {
    order.push_back(p);
    const models::Parameter& parameter = problem.table.parameters[p];
    const float* at = problem.gradients.data() + parameter.offset;
    std::copy(at, at + parameter.count, when_ready.begin() + parameter.offset);
  });
  EXPECT_THAT(order, ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
  EXPECT_EQ(when_ready, problem.gradients);  // gradients were final when reported ready
}

TEST(Net, ReportsTheLastGradientBeforeComputingTheFirst) {
  if (DeviceUnderTest() != Device::kCpu)
    GTEST_SKIP() << "a device has finished whatever it has by then";
  Problem problem(LeNet(pb::Model::valid), 2);
  auto net = problem.Make();
  net->Forward({problem.images, problem.labels, 2}, nullptr);
  uint64_t untouched = 0;
  net->Backward([&](uint32_t p) {
    if (p == 6) untouched = std::count(problem.gradients.begin(), problem.gradients.end(), -77.f);
  });
  EXPECT_EQ(untouched, problem.table.parameters[6].offset);
}

std::vector<float> TrainSteps(int steps, int threads) {
  const Threads scope(threads);
  Problem problem(LeNet(pb::Model::valid), 2);
  auto net = problem.Make();
  for (int i = 0; i < steps; ++i) {
    net->Forward({problem.images, problem.labels, 2}, nullptr);
    net->Backward(nullptr);
    for (size_t k = 0; k < problem.parameters.size(); ++k) {
      problem.parameters[k] -= 0.02f * problem.gradients[k];
    }
  }
  return problem.parameters;
}

TEST(Net, TwoRunsGiveTheSameBits) {
  const int steps = 2;
  for (const int threads : {1, 2})
    EXPECT_EQ(TrainSteps(steps, threads), TrainSteps(steps, threads));
}

TEST(Net, ReturnsTheScoresOfItsLoss) {
  Problem problem(LeNet(pb::Model::same), 3);
  auto net = problem.Make(false);
  std::vector<float> scores(3 * 10);
  const double loss = net->Forward({problem.images, problem.labels, 3, 0, scores}, nullptr);
  const SoftmaxSums sums = SoftmaxLoss(scores.data(), problem.labels, 3, 10, 3, 0, nullptr);
  EXPECT_EQ(loss, sums.loss / 3);
  EXPECT_NE(scores[0], scores[10]);
}

TEST(Net, OverfitsABatch) {
  Problem problem(Chain("conv { outputs: 6 kernel: 3 }; relu {}; max_pool { kernel: 2 }; "
                        "dense { outputs: 16 }; relu {}; dense { outputs: 10 }",
                        Image(1, 8, 8), 10),
                  8);
  auto net = problem.Make();
  Score score;
  double first = 0, last = 0;
  for (int i = 0; i < 80; ++i) {
    score = Score();
    last = net->Forward({problem.images, problem.labels, 8}, &score);
    if (i == 0) first = last;
    net->Backward(nullptr);
    for (size_t k = 0; k < problem.parameters.size(); ++k) {
      problem.parameters[k] -= 0.1f * problem.gradients[k];
    }
  }
  EXPECT_GT(first, 1.5);
  EXPECT_LT(last, 0.1);
  EXPECT_EQ(score.correct, 8u);
}

TEST(Net, ReadsParametersInEveryForward) {
  Problem problem(LeNet(pb::Model::valid), 2);
  auto training = problem.Make();
  auto evaluation = problem.Make(/*training=*/false);
  for (uint64_t seed : {1, 2, 3}) {
    models::InitParameters(problem.table, seed, problem.parameters.data());
    const ReferenceRun expected = RunReference(problem.net, problem.Reference(2));
    for (auto* net : {training.get(), evaluation.get()}) {
      EXPECT_NEAR(net->Forward({problem.images, problem.labels, 2}, nullptr), expected.loss, 1e-5);
    }
  }
}

TEST(Net, DoesNotNeedTheImagesAfterForward) {
  Problem problem(LeNet(pb::Model::valid), 2);
  auto net = problem.Make();
  net->Forward({problem.images, problem.labels, 2}, nullptr);
  net->Backward(nullptr);
  const std::vector<float> expected = problem.gradients;
  std::vector<float> copy = problem.images;
  net->Forward({copy, problem.labels, 2}, nullptr);
  std::fill(copy.begin(), copy.end(), 1e9f);
  net->Backward(nullptr);
  EXPECT_EQ(problem.gradients, expected);
}

TEST(Net, EvaluatingBetweenForwardAndBackwardChangesNothing) {
  Problem problem(LeNet(pb::Model::valid), 2);
  auto net = problem.Make();
  auto evaluation = problem.Make(/*training=*/false);
  net->Forward({problem.images, problem.labels, 2}, nullptr);
  net->Backward(nullptr);
  const std::vector<float> expected = problem.gradients;
  net->Forward({problem.images, problem.labels, 2}, nullptr);
  const std::vector<float> others(problem.images.size(), 0.5f);
  evaluation->Forward({others, problem.labels, 2}, nullptr);
  net->Backward(nullptr);
  EXPECT_EQ(problem.gradients, expected);
}

// Writes each tensor only when the net asks for it; the net must read the new values.
TEST(Net, RequestsAParameterBeforeReadingIt) {
  Problem problem(LeNet(pb::Model::valid), 2);
  auto net = problem.Make();
  const double expected = net->Forward({problem.images, problem.labels, 2}, nullptr);
  const std::vector<float> parameters = problem.parameters;
  std::fill(problem.parameters.begin(), problem.parameters.end(), 1e9f);
  std::vector<uint32_t> asked;
  const double loss = net->Forward({problem.images, problem.labels, 2}, nullptr, [&](uint32_t p) {
    const auto& tensor = problem.table.parameters[p];
    std::copy_n(parameters.begin() + static_cast<long>(tensor.offset), tensor.count,
                problem.parameters.begin() + static_cast<long>(tensor.offset));
    asked.push_back(p);
    return true;
  });
  EXPECT_EQ(loss, expected);
  std::vector<uint32_t> all(problem.table.parameters.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(asked, all);
}

TEST(Net, EndsThePassIfNeedReturnsFalse) {
  Problem problem(LeNet(pb::Model::valid), 2);
  auto net = problem.Make();
  int asked = 0;
  net->Forward({problem.images, problem.labels, 2}, nullptr, [&](uint32_t) { return ++asked < 3; });
  EXPECT_EQ(asked, 3);
  const double loss = net->Forward({problem.images, problem.labels, 2}, nullptr);
  EXPECT_EQ(loss, net->Forward({problem.images, problem.labels, 2}, nullptr));
}

TEST(Net, PaddingSamplesDoNotCount) {
  Problem problem(LeNet(pb::Model::valid), 5);
  auto net = problem.Make(/*training=*/false);
  const ReferenceRun expected = RunReference(problem.net, problem.EvaluationReference(3));
  Score score;
  score.samples = 10;
  score.correct = 10;
  score.loss = 1;
  const std::span<const uint32_t> three(problem.labels.data(), 3);
  EXPECT_NEAR(net->Forward({problem.images, three, 3}, &score), expected.loss, 1e-5);
  EXPECT_NEAR(score.loss, 1 + 3 * expected.loss, 1e-5);
  EXPECT_EQ(score.correct, 10 + expected.correct);
  EXPECT_EQ(score.samples, 13u);
}

TEST(Net, RefusesInvalidBatches) {
  Problem problem(LeNet(pb::Model::valid), 1);
  const auto make = [&](uint32_t batch) {
    const auto net = Net::Make(problem.net, {.batch = batch, .training = false},
                               {.parameters = problem.parameters.data()});
    EXPECT_EQ(net.status().code(), Code::kBadJob);
    return net.status().message();
  };
  EXPECT_THAT(make(0), HasSubstr("a batch of at least one sample"));
  EXPECT_THAT(make(4'000'000'000u), HasSubstr("take a smaller batch"));
}

TEST(Net, RefusesAnInvalidNet) {
  pb::NetDef net = LeNet(pb::Model::valid);
  net.mutable_layers(2)->mutable_conv()->set_kernel(99);
  const auto made = Net::Make(net, {.batch = 1, .training = false}, {});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.status().message(), HasSubstr("layer \"conv2\" (conv)"));
}

}  // namespace
}  // namespace tern::engine
