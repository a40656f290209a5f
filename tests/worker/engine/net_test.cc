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
  Problem problem(MakeLeNet(pb::Model::same), 2);
  auto net = problem.MakeNet();
  net->Forward({problem.images, problem.labels, 2}, nullptr);
  std::vector<uint32_t> ready_order;
  std::vector<float> gradients_when_ready(problem.table.total);
  net->Backward([&](uint32_t p) {
    ready_order.push_back(p);
    const models::Parameter& parameter = problem.table.parameters[p];
    const float* gradient_begin = problem.gradients.data() + parameter.offset;
    std::copy(gradient_begin, gradient_begin + parameter.count,
              gradients_when_ready.begin() + parameter.offset);
  });
  EXPECT_THAT(ready_order, ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
  EXPECT_EQ(gradients_when_ready, problem.gradients);  // each was final when reported ready
}

TEST(Net, ReportsTheLastGradientBeforeComputingTheFirst) {
  if (DeviceUnderTest() != Device::kCpu)
    GTEST_SKIP() << "a device has finished whatever it has by then";
  Problem problem(MakeLeNet(pb::Model::valid), 2);
  auto net = problem.MakeNet();
  net->Forward({problem.images, problem.labels, 2}, nullptr);
  uint64_t num_untouched = 0;
  net->Backward([&](uint32_t p) {
    if (p == 6)
      num_untouched = std::count(problem.gradients.begin(), problem.gradients.end(), -77.f);
  });
  EXPECT_EQ(num_untouched, problem.table.parameters[6].offset);
}

std::vector<float> ParametersAfter(int num_steps, int num_threads) {
  const ScopedThreadCount thread_count(num_threads);
  Problem problem(MakeLeNet(pb::Model::valid), 2);
  auto net = problem.MakeNet();
  for (int i = 0; i < num_steps; ++i) {
    net->Forward({problem.images, problem.labels, 2}, nullptr);
    net->Backward(nullptr);
    for (size_t k = 0; k < problem.parameters.size(); ++k) {
      problem.parameters[k] -= 0.02f * problem.gradients[k];
    }
  }
  return problem.parameters;
}

TEST(Net, TwoRunsGiveTheSameBits) {
  const int num_steps = 2;
  for (const int num_threads : {1, 2})
    EXPECT_EQ(ParametersAfter(num_steps, num_threads), ParametersAfter(num_steps, num_threads));
}

TEST(Net, ReturnsTheScoresOfItsLoss) {
  Problem problem(MakeLeNet(pb::Model::same), 3);
  auto net = problem.MakeNet(false);
  std::vector<float> scores(3 * 10);
  const double loss = net->Forward({problem.images, problem.labels, 3, 0, scores}, nullptr);
  const SoftmaxSums sums = SoftmaxLoss(scores.data(), problem.labels, 3, 10, 3, 0, nullptr);
  // A GPU's exp and log may differ from the host's by one unit in the last place: 4e-16 for a loss
  // between 2 and 4, of which this is the mean of three.
  EXPECT_NEAR(loss, sums.loss / 3, 1e-14);
  EXPECT_NE(scores[0], scores[10]);
}

TEST(Net, OverfitsABatch) {
  Problem problem(MakeChain("conv { outputs: 6 kernel: 3 }; relu {}; max_pool { kernel: 2 }; "
                            "dense { outputs: 16 }; relu {}; dense { outputs: 10 }",
                            MakeImageShape(1, 8, 8), 10),
                  8);
  auto net = problem.MakeNet();
  Score score;
  double first_loss = 0, last_loss = 0;
  for (int i = 0; i < 80; ++i) {
    score = Score();
    last_loss = net->Forward({problem.images, problem.labels, 8}, &score);
    if (i == 0) first_loss = last_loss;
    net->Backward(nullptr);
    for (size_t k = 0; k < problem.parameters.size(); ++k) {
      problem.parameters[k] -= 0.1f * problem.gradients[k];
    }
  }
  EXPECT_GT(first_loss, 1.5);
  EXPECT_LT(last_loss, 0.1);
  EXPECT_EQ(score.correct, 8u);
}

TEST(Net, ReadsParametersInEveryForward) {
  Problem problem(MakeLeNet(pb::Model::valid), 2);
  auto training_net = problem.MakeNet();
  auto evaluation_net = problem.MakeNet(/*training=*/false);
  for (uint64_t seed : {1, 2, 3}) {
    models::InitParameters(problem.table, seed, problem.parameters.data());
    const ReferenceRun expected = RunReference(problem.net, problem.TrainingReferenceFeed(2));
    for (auto* net : {training_net.get(), evaluation_net.get()}) {
      EXPECT_NEAR(net->Forward({problem.images, problem.labels, 2}, nullptr), expected.loss, 1e-5);
    }
  }
}

TEST(Net, DoesNotNeedTheImagesAfterForward) {
  Problem problem(MakeLeNet(pb::Model::valid), 2);
  auto net = problem.MakeNet();
  net->Forward({problem.images, problem.labels, 2}, nullptr);
  net->Backward(nullptr);
  const std::vector<float> expected = problem.gradients;
  std::vector<float> images_copy = problem.images;
  net->Forward({images_copy, problem.labels, 2}, nullptr);
  std::fill(images_copy.begin(), images_copy.end(), 1e9f);
  net->Backward(nullptr);
  EXPECT_EQ(problem.gradients, expected);
}

TEST(Net, EvaluatingBetweenForwardAndBackwardChangesNothing) {
  Problem problem(MakeLeNet(pb::Model::valid), 2);
  auto net = problem.MakeNet();
  auto evaluation_net = problem.MakeNet(/*training=*/false);
  net->Forward({problem.images, problem.labels, 2}, nullptr);
  net->Backward(nullptr);
  const std::vector<float> expected = problem.gradients;
  net->Forward({problem.images, problem.labels, 2}, nullptr);
  const std::vector<float> other_images(problem.images.size(), 0.5f);
  evaluation_net->Forward({other_images, problem.labels, 2}, nullptr);
  net->Backward(nullptr);
  EXPECT_EQ(problem.gradients, expected);
}

// The parameters are invalid until the net requests them, one tensor after the other.
TEST(Net, RequestsAParameterBeforeReadingIt) {
  Problem problem(MakeLeNet(pb::Model::valid), 2);
  auto net = problem.MakeNet();
  const double expected = net->Forward({problem.images, problem.labels, 2}, nullptr);
  const std::vector<float> saved_parameters = problem.parameters;
  std::fill(problem.parameters.begin(), problem.parameters.end(), 1e9f);
  std::vector<uint32_t> requested_parameters;
  const double loss = net->Forward({problem.images, problem.labels, 2}, nullptr, [&](uint32_t p) {
    const auto& tensor = problem.table.parameters[p];
    std::copy_n(saved_parameters.begin() + static_cast<long>(tensor.offset), tensor.count,
                problem.parameters.begin() + static_cast<long>(tensor.offset));
    requested_parameters.push_back(p);
    return true;
  });
  EXPECT_EQ(loss, expected);
  std::vector<uint32_t> all_parameters(problem.table.parameters.size());
  std::iota(all_parameters.begin(), all_parameters.end(), 0);
  EXPECT_EQ(requested_parameters, all_parameters);
}

TEST(Net, EndsThePassIfNeedReturnsFalse) {
  Problem problem(MakeLeNet(pb::Model::valid), 2);
  auto net = problem.MakeNet();
  int num_requests = 0;
  net->Forward({problem.images, problem.labels, 2}, nullptr,
               [&](uint32_t) { return ++num_requests < 3; });
  EXPECT_EQ(num_requests, 3);
  const double loss = net->Forward({problem.images, problem.labels, 2}, nullptr);
  EXPECT_EQ(loss, net->Forward({problem.images, problem.labels, 2}, nullptr));
}

TEST(Net, PaddingSamplesDoNotCount) {
  Problem problem(MakeLeNet(pb::Model::valid), 5);
  auto net = problem.MakeNet(/*training=*/false);
  const ReferenceRun expected = RunReference(problem.net, problem.EvaluationReferenceFeed(3));
  Score score;
  score.samples = 10;
  score.correct = 10;
  score.loss = 1;
  const std::span<const uint32_t> used_labels(problem.labels.data(), 3);
  EXPECT_NEAR(net->Forward({problem.images, used_labels, 3}, &score), expected.loss, 1e-5);
  EXPECT_NEAR(score.loss, 1 + 3 * expected.loss, 1e-5);
  EXPECT_EQ(score.correct, 10 + expected.correct);
  EXPECT_EQ(score.samples, 13u);
}

TEST(Net, RefusesInvalidBatches) {
  Problem problem(MakeLeNet(pb::Model::valid), 1);
  const auto error_of_batch = [&](uint32_t batch, bool is_training) {
    const auto net = Net::Make(problem.net, {.batch = batch, .is_training = is_training},
                               {.parameters = problem.parameters.data()});
    EXPECT_EQ(net.status().code(), Code::kBadJob);
    return net.status().message();
  };
  EXPECT_THAT(error_of_batch(0, false), HasSubstr("a batch of at least one sample"));
  EXPECT_THAT(error_of_batch(4'000'000'000u, true), HasSubstr("take a smaller batch per worker"));
  EXPECT_THAT(error_of_batch(4'000'000'000u, false), HasSubstr("lower evaluation.batch"));
}

TEST(Net, RefusesAnInvalidNet) {
  pb::NetDef net = MakeLeNet(pb::Model::valid);
  net.mutable_layers(2)->mutable_conv()->set_kernel(99);
  const auto invalid_net = Net::Make(net, {.batch = 1, .is_training = false}, {});
  ASSERT_FALSE(invalid_net.ok());
  EXPECT_THAT(invalid_net.status().message(), HasSubstr("layer \"conv2\" (conv)"));
}

}  // namespace
}  // namespace tern::engine
