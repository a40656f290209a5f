// Which convolutions add up channels for a batch norm, and which compute a norm's output, and that
// nets compute the same with and without that.
#include "worker/engine/cuda/norm_fusion.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/worker/engine/problem.h"

namespace tern::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kConv = "conv { outputs: 16 kernel: 3 pad: 1 bias: false }";

std::vector<PlannedLayer> LayersOf(const pb::NetDef& def, const Net::Options& options) {
  auto layers = PlanLayers(def, options, *models::MakeParameterTable(def, options.freeze), {},
                           nullptr, [](auto) { return true; });
  EXPECT_TRUE(layers.ok()) << layers.status().message();
  return std::move(*layers);
}

const Net::Options kHalves = {.batch = 2, .is_training = true, .precision = Precision::kFp16};

// The names of the convolutions that add up channels, and of the norms that leave their output, if
// the library can do that for all.
struct Fused {
  std::vector<std::string> convolutions, norms, norms_with_gradients;
};
Fused FusedLayersOf(const std::string& layers_text, const Net::Options& options = kHalves) {
  const pb::NetDef def =
      MakeChain(layers_text + "; dense { outputs: 10 }", MakeImageShape(8, 8, 8), 10);
  std::vector<PlannedLayer> layers = LayersOf(def, options);
  const cuda::NormFusions fusions = cuda::FuseNorms(
      8,
      [](const cuda::ConvShape& shape, cuda::ConvPass pass) {
        EXPECT_TRUE(cuda::HelpsNorm(shape, pass));
        return true;
      },
      &layers);
  Fused fused;
  for (const PlannedLayer& layer : layers) {
    if (layer.spec.has_sums) fused.convolutions.push_back(layer.spec.def->name());
    if (layer.spec.leaves_output) fused.norms.push_back(layer.spec.def->name());
    if (layer.spec.leaves_gradient) fused.norms_with_gradients.push_back(layer.spec.def->name());
  }
  EXPECT_EQ(fusions.sums, fused.convolutions.size());
  EXPECT_EQ(fusions.outputs, fused.norms.size());
  EXPECT_EQ(fused.norms_with_gradients, fused.norms);
  EXPECT_EQ(fusions.gradients, fused.norms.size());
  return fused;
}
std::vector<std::string> FusedIn(const std::string& layers_text,
                                 const Net::Options& options = kHalves) {
  return FusedLayersOf(layers_text, options).convolutions;
}
std::vector<std::string> LeftIn(const std::string& layers_text,
                                const Net::Options& options = kHalves) {
  return FusedLayersOf(layers_text, options).norms;
}

std::string After(const std::string& first, const std::string& others) {
  return first + "; " + others;
}

TEST(NormFusion, IsOfConvolutionsThatOnlyABatchNormReads) {
  EXPECT_THAT(FusedIn(After(kConv, "batch_norm {}")), ElementsAre("a"));
  EXPECT_THAT(FusedIn(After(kConv, "batch_norm {}; relu {}")), ElementsAre("a"));
  EXPECT_THAT(FusedIn("relu {}; conv { outputs: 16 kernel: 3 pad: 1 bias: false }; batch_norm {}; "
                      "relu {}; conv { outputs: 8 kernel: 1 bias: false }; batch_norm {}; "
                      "add {} inputs: 'a' inputs: 'f'; relu {}"),
              ElementsAre("b", "e"))
      << "a residual block";
}

TEST(NormFusion, IsNotOfOtherConvolutions) {
  EXPECT_THAT(FusedIn("conv { outputs: 16 kernel: 3 }; batch_norm {}"), IsEmpty()) << "a bias";
  EXPECT_THAT(FusedIn(After(kConv, "relu {}; batch_norm {}")), IsEmpty()) << "a ReLU";
  EXPECT_THAT(FusedIn("conv { outputs: 16 kernel: 3 bias: false groups: 2 }; batch_norm {}"),
              IsEmpty());
  EXPECT_THAT(FusedIn("conv { outputs: 8 kernel: 3 bias: false groups: 8 }; batch_norm {}"),
              IsEmpty())
      << "depthwise";
  EXPECT_THAT(FusedIn("conv { outputs: 12 kernel: 3 bias: false }; batch_norm {}"), IsEmpty())
      << "12 channels";
  EXPECT_THAT(FusedIn("dense { outputs: 16 }; batch_norm {}"), IsEmpty());
  EXPECT_THAT(FusedIn(After(kConv, "max_pool { kernel: 2 stride: 2 }; batch_norm {}")), IsEmpty());
}

TEST(NormFusion, IsNotOfTensorsWithOtherReaders) {
  EXPECT_THAT(FusedIn(After(kConv, "batch_norm {}; add {} inputs: 'a' inputs: 'b'")), IsEmpty());
  EXPECT_THAT(FusedIn("conv { outputs: 8 kernel: 1 bias: false }; batch_norm {} inputs: 'data'; "
                      "add {} inputs: 'a' inputs: 'b'"),
              IsEmpty())
      << "the norm adds it";
}

TEST(NormFusion, IsOfNormsThatTakeMomentsInFp16) {
  const std::string layers = After(kConv, "batch_norm {}");
  for (const Precision precision : {Precision::kFp32, Precision::kTf32, Precision::kBf16})
    EXPECT_THAT(FusedIn(layers, {.batch = 2, .is_training = true, .precision = precision}),
                IsEmpty());
  EXPECT_THAT(FusedIn(layers, {.batch = 2, .is_training = false, .precision = Precision::kFp16}),
              IsEmpty());
  Net::Options options{.batch = 2, .is_training = true, .precision = Precision::kFp16};
  options.freeze = {"b.*"};
  EXPECT_THAT(FusedIn(layers, options), IsEmpty()) << "a frozen norm";
  options.freeze = {"a.*", "b.bias"};
  EXPECT_THAT(FusedIn(layers, options), ElementsAre("a")) << "the norm still takes moments";
}

TEST(NormFusion, LeavesAnOutputThatOnlyAConvolutionReads) {
  const std::string norm = "batch_norm {}; relu {}", before = After(kConv, norm);
  EXPECT_THAT(LeftIn(After(before, kConv)), ElementsAre("b"));
  EXPECT_THAT(LeftIn(After(norm, kConv)), ElementsAre("a")) << "no convolution before it";
  EXPECT_THAT(LeftIn(After(After(before, kConv), After(norm, kConv))), ElementsAre("b", "e"));
  EXPECT_THAT(LeftIn(before), IsEmpty()) << "a dense layer reads it";
  EXPECT_THAT(LeftIn(After(kConv, After("batch_norm {}", kConv))), IsEmpty()) << "no ReLU";
  EXPECT_THAT(LeftIn(After(kConv, After("batch_norm {}; relu { max: 6 }", kConv))), IsEmpty());
  EXPECT_THAT(LeftIn(After(before, After("max_pool { kernel: 2 stride: 2 }", kConv))), IsEmpty());
  EXPECT_THAT(LeftIn(After(before, After(kConv, "add {} inputs: 'c' inputs: 'd'"))), IsEmpty())
      << "two readers";
  const std::string adds = "batch_norm {}; add {} inputs: 'a' inputs: 'c'; relu {}";
  EXPECT_THAT(LeftIn(After(kConv, After(kConv, After(adds, kConv)))), IsEmpty())
      << "the norm adds another tensor";
  EXPECT_THAT(LeftIn(After("conv { outputs: 12 kernel: 3 bias: false }", After(norm, kConv))),
              IsEmpty())
      << "12 channels";
  for (const char* reader :
       {"conv { outputs: 16 kernel: 3 }", "conv { outputs: 16 kernel: 3 bias: false groups: 2 }",
        "conv { outputs: 12 kernel: 3 bias: false }"})
    EXPECT_THAT(LeftIn(After(before, reader)), IsEmpty()) << reader;
}

TEST(NormFusion, LeavesOutputsInTrainingInFp16) {
  const std::string layers = After(kConv, After("batch_norm {}; relu {}", kConv));
  Net::Options options = kHalves;
  EXPECT_THAT(LeftIn(layers, options), ElementsAre("b"));
  options.freeze = {"b.*"};
  EXPECT_THAT(LeftIn(layers, options), IsEmpty()) << "a frozen norm";
  options = kHalves;
  options.is_training = false;
  EXPECT_THAT(LeftIn(layers, options), IsEmpty());
  for (const Precision precision : {Precision::kFp32, Precision::kTf32, Precision::kBf16}) {
    options = kHalves;
    options.precision = precision;
    EXPECT_THAT(LeftIn(layers, options), IsEmpty());
  }
}

// Of the two convolutions, the second reads the norm and adds up channels for another one.
TEST(NormFusion, TakesSumsWithoutTheNormBeforeIfThatIsAllThatHasPlans) {
  const pb::NetDef def = MakeChain(
      After(kConv,
            After("batch_norm {}; relu {}", After(kConv, "batch_norm {}; dense { outputs: 10 }"))),
      MakeImageShape(3, 8, 8), 10);
  for (const auto missing : {cuda::ConvPass::kForward, cuda::ConvPass::kBackwardWeights}) {
    std::vector<PlannedLayer> layers = LayersOf(def, kHalves);
    const cuda::NormFusions fusions = cuda::FuseNorms(
        8,
        [&](const cuda::ConvShape& shape, cuda::ConvPass pass) {
          return !cuda::Normalizes(shape, pass) || pass != missing;
        },
        &layers);
    EXPECT_EQ(fusions.sums, 2u);
    EXPECT_EQ(fusions.outputs, 0u);
    EXPECT_FALSE(layers[1].spec.leaves_output);
    EXPECT_FALSE(layers[1].spec.leaves_gradient);
  }
}

TEST(NormFusion, LeavesOnlyTheOutputIfItsGradientHasNoPlan) {
  const pb::NetDef def = MakeChain(
      After(kConv, After("batch_norm {}; relu {}", After(kConv, "dense { outputs: 10 }"))),
      MakeImageShape(3, 8, 8), 10);
  std::vector<PlannedLayer> layers = LayersOf(def, kHalves);
  const cuda::NormFusions fusions = cuda::FuseNorms(
      8,
      [&](const cuda::ConvShape& shape, cuda::ConvPass pass) {
        return !cuda::TakesNormGradient(shape, pass);
      },
      &layers);
  EXPECT_EQ(fusions.outputs, 1u);
  EXPECT_EQ(fusions.gradients, 0u);
  EXPECT_TRUE(layers[1].spec.leaves_output);
  EXPECT_FALSE(layers[1].spec.leaves_gradient);
}

TEST(NormFusion, IsLeftOutWhereTheLibraryHasNoPlan) {
  const pb::NetDef def =
      MakeChain(After(kConv,
                      "batch_norm {}; conv { outputs: 8 kernel: 5 bias: false }; "
                      "batch_norm {}; dense { outputs: 10 }"),
                MakeImageShape(3, 8, 8), 10);
  std::vector<PlannedLayer> layers =
      LayersOf(def, {.batch = 2, .is_training = true, .precision = Precision::kFp16});
  std::vector<uint32_t> input_channels;
  const auto has_plan = [&](const cuda::ConvShape& shape, cuda::ConvPass) {
    input_channels.push_back(shape.slide.in.c);
    return shape.slide.window.rows.kernel == 5;
  };
  EXPECT_EQ(cuda::FuseNorms(8, has_plan, &layers).sums, 1u);
  EXPECT_THAT(input_channels, ElementsAre(8, 16)) << "the images' stored channels";
  EXPECT_FALSE(layers[0].spec.has_sums);
  EXPECT_TRUE(layers[2].spec.has_sums);
}

struct StepResult {
  double loss = 0;
  std::vector<float> gradients, statistics;
  Planning planning;
};

constexpr uint32_t kBatch = 6;

Problem ProblemOf(const std::string& layers) {
  return Problem(MakeChain(layers, MakeImageShape(3, 10, 10), 10), kBatch);
}

StepResult RunStep(const std::string& layers, bool fuses_norms = true) {
  Problem problem = ProblemOf(layers);
  const auto net =
      Net::Make(problem.net,
                {.device = DeviceUnderTest(),
                 .batch = kBatch,
                 .precision = Precision::kFp16,
                 .fuses_norms = fuses_norms},
                {problem.parameters.data(), problem.gradients.data(), problem.statistics.data()});
  EXPECT_TRUE(net.ok()) << net.status().message();
  StepResult result;
  result.loss = (*net)->Forward({problem.images, problem.labels, kBatch}, nullptr);
  (*net)->Backward(nullptr);
  EXPECT_TRUE((*net)->status().ok()) << (*net)->status().message();
  result.gradients = problem.gradients;
  result.statistics = problem.statistics;
  result.planning = (*net)->planning();
  return result;
}

template <typename T>
double Distance(const std::vector<float>& a, const std::vector<T>& b) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += std::pow(double{a[i]} - b[i], 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(error / norm);
}

struct FusedNet {
  const char* layers;
  uint32_t num_fused;     // the norms that take their sums from a convolution
  uint32_t num_left = 0;  // the norms that leave their output and its gradient
};
void PrintTo(const FusedNet& net, std::ostream* out) { *out << net.layers; }

class NormsOfSums : public testing::TestWithParam<FusedNet> {};

TEST_P(NormsOfSums, AreThoseOfTheirOwnSums) {
  const auto& [layers, num_fused, num_left] = GetParam();
  const StepResult fused = RunStep(layers), alone = RunStep(layers, /*fuses_norms=*/false);
  // Our own loops can add up channels in all shapes, cuDNN perhaps not.
  if (!fused.planning.own_loops.empty()) {
    EXPECT_EQ(fused.planning.fused_norms, num_fused);
    EXPECT_EQ(fused.planning.norms_in_readers, num_left);
    EXPECT_EQ(fused.planning.norm_gradients_in_readers, num_left);
  }
  EXPECT_LE(fused.planning.fused_norms, num_fused);
  EXPECT_EQ(alone.planning.fused_norms, 0u);
  EXPECT_EQ(alone.planning.norms_in_readers, 0u);
  EXPECT_NEAR(fused.loss, alone.loss, 1e-3 * alone.loss);
  // Readers have scale and shift in 11 bits.
  EXPECT_LT(Distance(fused.statistics, alone.statistics), num_left > 0 ? 1e-3 : 1e-4);
  // Sums that differ in their last bits change the rounding of few outputs, and the sign of fewer.
  EXPECT_LT(Distance(fused.gradients, alone.gradients), 0.02);
}

TEST_P(NormsOfSums, AreCloseToTheReference) {
  const StepResult fused = RunStep(GetParam().layers);
  const Problem problem = ProblemOf(GetParam().layers);
  const ReferenceRun reference = RunReference(problem.net, problem.TrainingReferenceFeed(kBatch));
  EXPECT_NEAR(fused.loss, reference.loss, 0.01 * reference.loss);
  EXPECT_LT(Distance(fused.statistics, reference.statistics), 2e-3);
  EXPECT_LT(Distance(fused.gradients, reference.gradients), 0.03);
}

// NaN in a norm's gamma or beta is not lost in the ReLU that a convolution computes.
TEST_P(NormsOfSums, NaNInAParameterIsSeen) {
  Problem problem = ProblemOf(GetParam().layers);
  const std::vector<float> parameters = problem.parameters;
  const auto is_finite = [](float x) { return std::isfinite(x); };
  for (const models::Parameter& parameter : problem.table.parameters) {
    problem.parameters = parameters;
    problem.parameters[parameter.offset] = std::numeric_limits<float>::quiet_NaN();
    const auto net = problem.MakeNet(/*training=*/true, Precision::kFp16);
    const double loss = net->Forward({problem.images, problem.labels, kBatch}, nullptr);
    net->Backward(nullptr);
    EXPECT_FALSE(std::isfinite(loss) && std::ranges::all_of(problem.gradients, is_finite))
        << parameter.name;
  }
}

// From the second step on, the launches of a step are replayed as graphs.
TEST_P(NormsOfSums, AreTheSameInEveryStep) {
  Problem problem = ProblemOf(GetParam().layers);
  const auto net = problem.MakeNet(/*training=*/true, Precision::kFp16);
  std::vector<float> first_gradients;
  for (int step = 0; step < 4; ++step) {
    net->Forward({problem.images, problem.labels, kBatch}, nullptr);
    net->Backward(nullptr);
    ASSERT_TRUE(net->status().ok()) << net->status().message();
    if (step == 0) first_gradients = problem.gradients;
    EXPECT_EQ(problem.gradients, first_gradients) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Nets, NormsOfSums,
    testing::Values(
        FusedNet{"conv { outputs: 16 kernel: 3 bias: false }; batch_norm {}; dense { outputs: 10 }",
                 1},
        FusedNet{"conv { outputs: 24 kernel: 3 stride: 2 pad: 1 bias: false }; batch_norm {}; "
                 "relu {}; dense { outputs: 10 }",
                 1},
        FusedNet{"conv { outputs: 16 kernel: 3 bias: false }; batch_norm {}; relu {}; "
                 "conv { outputs: 16 kernel: 3 pad: 1 bias: false }; batch_norm {}; "
                 "add {} inputs: 'c' inputs: 'e'; relu {}; dense { outputs: 10 }",
                 2},
        FusedNet{"conv { outputs: 16 kernel: 3 bias: false }; batch_norm {}; relu {}; "
                 "conv { outputs: 16 kernel: 3 pad: 1 bias: false }; batch_norm {}; relu {}; "
                 "dense { outputs: 10 }",
                 2, 1},
        FusedNet{
            "max_pool { kernel: 2 stride: 2 }; conv { outputs: 16 kernel: 1 }; batch_norm {}; "
            "relu {}; conv { outputs: 16 kernel: 3 pad: 1 bias: false }; dense { outputs: 10 }",
            0, 1}));

TEST(NormFusion, IsNotOfAnEvaluation) {
  const std::string layers = After(kConv, "batch_norm {}; relu {}; dense { outputs: 10 }");
  Problem problem = ProblemOf(layers);
  const auto net = problem.MakeNet(/*training=*/false, Precision::kFp16);
  EXPECT_EQ(net->planning().fused_norms, 0u);
  const double loss = net->Forward({problem.images, problem.labels, kBatch}, nullptr);
  EXPECT_NEAR(loss, RunReference(problem.net, problem.EvaluationReferenceFeed(kBatch)).loss,
              0.01 * loss);
}

}  // namespace
}  // namespace tern::engine
