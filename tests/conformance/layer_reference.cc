// Compares the loss and the gradients of every test network with a reference that computes them in
// plain loops in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/worker/engine/problem.h"
#include "tests/worker/engine/reference_net.h"

namespace tern::engine {
namespace {

// Expects that each tensor's gradients are close to `expected`. The tolerance is relative to the
// norm of the tensor, because the terms of a single element may cancel. If a batch norm follows a
// bias, all of the bias's gradients are 0 except for rounding errors, so the norm of all gradients
// is added.
void ExpectClose(const Problem& problem, const std::vector<double>& expected, double slack) {
  double squared_norm = 0;
  for (const double g : expected) squared_norm += g * g;
  for (const models::Parameter& p : problem.table.parameters) {
    double squared_error = 0, squared_tensor_norm = 0;
    for (uint64_t i = p.offset; i < p.offset + p.count; ++i) {
      squared_error += std::pow(problem.gradients[i] - expected[i], 2);
      squared_tensor_norm += std::pow(expected[i], 2);
    }
    const double tolerance = 1e-5 * std::sqrt(squared_tensor_norm) + 1e-6 * std::sqrt(squared_norm);
    EXPECT_LE(std::sqrt(squared_error), slack * tolerance) << p.name;
  }
}

// Returns the factor by which a batch norm enlarges rounding errors if each channel has only one
// value, so that its variance is 0; 1 if the network has no such layer.
double SlackOf(const Problem& problem) {
  const auto shapes = *models::InferShapes(problem.net);
  double slack = 1;
  for (const pb::LayerDef& layer : problem.net.layers()) {
    if (!layer.has_batch_norm()) continue;
    const models::ImageDims& dims = shapes.at(layer.output());
    if (problem.batch * dims.h * dims.w > 1) continue;
    slack = std::max(slack, 1 / std::sqrt(static_cast<double>(layer.batch_norm().epsilon())));
  }
  return slack;
}

void ExpectLikeReference(Problem* problem) {
  const ReferenceRun expected =
      RunReference(problem->net, problem->TrainingReferenceFeed(problem->batch));
  auto net = problem->MakeNet();
  Score score;
  const double loss = net->Forward({problem->images, problem->labels, problem->batch}, &score);
  EXPECT_NEAR(loss, expected.loss, 1e-5 * expected.loss);
  EXPECT_NEAR(score.loss, loss * problem->batch, 1e-12 * score.loss);
  EXPECT_EQ(score.correct, expected.correct);
  EXPECT_EQ(score.samples, problem->batch);
  net->Backward(nullptr);
  ExpectClose(*problem, expected.gradients, SlackOf(*problem));
  for (size_t i = 0; i < expected.statistics.size(); ++i)
    EXPECT_NEAR(problem->statistics[i], expected.statistics[i], 1e-5) << "statistic " << i;
}

class Reference : public testing::TestWithParam<NetCase> {};

TEST_P(Reference, LossAndGradientsMatch) {
  Problem problem(NetOf(GetParam()), GetParam().batch);
  ExpectLikeReference(&problem);
}

TEST_P(Reference, LossAndGradientsMatchOnABatchOfOne) {
  Problem problem(NetOf(GetParam()), 1);
  ExpectLikeReference(&problem);
}

// The inputs have few distinct values, so pooling windows contain equal elements and ReLUs get
// exact zeros.
TEST_P(Reference, LossAndGradientsMatchOnEqualValues) {
  Problem problem(NetOf(GetParam()), GetParam().batch);
  for (float& x : problem.images) x = std::round(2 * x) / 2;
  for (float& w : problem.parameters) w = std::round(2 * w) / 2;
  ExpectLikeReference(&problem);
}

TEST_P(Reference, EvaluationGivesTheSameLoss) {
  Problem problem(NetOf(GetParam()), GetParam().batch);
  for (size_t i = 0; i < problem.statistics.size(); ++i)
    problem.statistics[i] += 0.3f * std::fabs(Problem::DrawUniform(1, 4, i));
  const ReferenceRun expected =
      RunReference(problem.net, problem.EvaluationReferenceFeed(problem.batch));
  auto net = problem.MakeNet(/*training=*/false);
  EXPECT_NEAR(net->Forward({problem.images, problem.labels, problem.batch}, nullptr), expected.loss,
              1e-5 * expected.loss);
}

INSTANTIATE_TEST_SUITE_P(Nets, Reference, testing::ValuesIn(NetCases()),
                         [](const auto& info) { return info.param.name; });

TEST(ReferenceLeNet, ValidMatches) {
  Problem problem(MakeLeNet(pb::Model::valid), 3);
  ExpectLikeReference(&problem);
}

TEST(ReferenceLeNet, ValidMatchesOnTwoThreads) {
  const ScopedThreadCount two_threads(2);
  Problem problem(MakeLeNet(pb::Model::valid), 3);
  ExpectLikeReference(&problem);
}

TEST(ReferenceLeNet, SameMatches) {
  Problem problem(MakeLeNet(pb::Model::same), 2);
  ExpectLikeReference(&problem);
}

}  // namespace
}  // namespace tern::engine
