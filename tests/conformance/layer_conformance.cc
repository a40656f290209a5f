// Tests that every layer type must pass, on the small networks of layer_cases.cc: output shapes,
// order of gradients, reproducible results, evaluation, values that are not finite. Two other files
// test the values of the gradients: layer_reference.cc compares them with plain loops,
// layer_differences.cc with finite differences.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "models/graph/layer_rules.h"
#include "tests/worker/engine/problem.h"

namespace tern::engine {
namespace {

using google::protobuf::TextFormat;

class LayerConformance : public testing::TestWithParam<NetCase> {
 protected:
  static Problem MakeProblem() { return Problem(NetOf(GetParam()), GetParam().batch); }
};

// The results of one training step of a new network.
struct StepResult {
  double loss = 0;
  std::vector<float> gradients, statistics;
  friend bool operator==(const StepResult&, const StepResult&) = default;
};

StepResult RunStep(Problem problem) {
  auto net = problem.MakeNet();
  StepResult result;
  result.loss = net->Forward({problem.images, problem.labels, problem.batch}, nullptr);
  net->Backward(nullptr);
  result.gradients = problem.gradients;
  result.statistics = problem.statistics;
  return result;
}

// Expects that the distance in the 2-norm is at most tolerance * |expected|.
void ExpectNear(std::span<const float> actual, std::span<const float> expected, double tolerance,
                const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double squared_error = 0, squared_norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    squared_error += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
    squared_norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  EXPECT_LE(std::sqrt(squared_error), tolerance * std::sqrt(squared_norm) + 1e-12) << what;
}

// --- Shapes

// Returns a network of layer number `last` of `net`, all layers that it depends on, and then a
// dense layer named "probe" with `classes` outputs.
pb::NetDef CutAfter(const pb::NetDef& net, int last, uint32_t classes) {
  std::set<std::string> needed_outputs = {net.layers(last).output()};
  std::vector<pb::LayerDef> layers;
  for (int i = last; i >= 0; --i) {
    if (!needed_outputs.contains(net.layers(i).output())) continue;
    layers.insert(layers.begin(), net.layers(i));
    needed_outputs.insert(net.layers(i).inputs().begin(), net.layers(i).inputs().end());
  }
  pb::Model model;
  for (const pb::LayerDef& layer : layers) *model.mutable_net()->add_layers() = layer;
  const std::string probe_text = "layers { name: 'probe' inputs: '" + net.layers(last).output() +
                                 "' dense { outputs: " + std::to_string(classes) +
                                 " } } layers { name: 'loss' softmax_loss {} }";
  pb::NetDef probe_layers;
  EXPECT_TRUE(TextFormat::ParseFromString(probe_text, &probe_layers));
  model.mutable_net()->MergeFrom(probe_layers);
  const auto result = models::BuildNet(model, net.input(), classes);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return *result;
}

// Sets the weights of a dense or 1 x 1 convolution layer to 1 and 0, so that each output equals one
// input. If the layer has fewer outputs than inputs, the copied inputs are spread evenly.
void SetToIdentity(Problem* problem, const std::string& layer) {
  for (const models::Parameter& p : problem->table.parameters) {
    if (!p.name.starts_with(layer + ".")) continue;
    float* values = problem->parameters.data() + p.offset;
    std::fill_n(values, p.count, 0.f);
    if (p.is_bias) continue;
    const uint64_t outputs = p.shape[0], inputs = p.count / outputs;
    for (uint64_t i = 0; i < outputs; ++i)
      values[i * inputs + i * (inputs - 1) / std::max<uint64_t>(1, outputs - 1)] = 1;
  }
}

// Cuts the network after each layer. The probe copies that layer's output to the scores.
TEST_P(LayerConformance, EveryLayerWritesAnOutputOfTheInferredShape) {
  const pb::NetDef net = NetOf(GetParam());
  const auto shapes = *models::InferShapes(net);
  for (int i = 0; i + 1 < net.layers_size(); ++i) {
    const uint64_t num_elements = models::Elements(shapes.at(net.layers(i).output()));
    const auto num_probed = static_cast<uint32_t>(std::min<uint64_t>(num_elements, 300));
    Problem problem(CutAfter(net, i, num_probed), GetParam().batch);
    SetToIdentity(&problem, "probe");
    std::vector<float> scores(size_t{problem.batch} * num_probed, NAN);
    const ReferenceRun expected =
        RunReference(problem.net, problem.TrainingReferenceFeed(problem.batch));
    auto cut_net = problem.MakeNet();
    cut_net->Forward({problem.images, problem.labels, problem.batch, 0, scores}, nullptr);
    const std::vector<float> reference(expected.scores.begin(), expected.scores.end());
    ExpectNear(scores, reference, 1e-5, "output of layer " + net.layers(i).name());
  }
}

// --- Gradients

// A network computes no gradient with respect to its input images. If a trained layer (here the
// identity) comes first, the layers after it must compute the gradient of their input. The
// gradients of their parameters must stay the same.
TEST_P(LayerConformance, GradientsDoNotDependOnWhetherTheInputIsTrained) {
  pb::NetDef net_def = NetOf(GetParam());
  // Sets dropout rates to 0, because dropout's random numbers depend on the index of the layer,
  // which the additional layer changes.
  for (pb::LayerDef& layer : *net_def.mutable_layers())
    if (layer.has_dropout()) layer.mutable_dropout()->set_rate(0);
  const Problem frozen(net_def, GetParam().batch);
  pb::Model model;
  const std::string channels = std::to_string(frozen.net.input().channels());
  const std::string identity_layer =
      "layers { name: 'identity' conv { outputs: " + channels + " kernel: 1 bias: false } }";
  ASSERT_TRUE(TextFormat::ParseFromString(identity_layer, model.mutable_net()));
  for (pb::LayerDef layer : frozen.net.layers()) {
    for (std::string& input : *layer.mutable_inputs())
      if (input == "data") input = "identity";
    *model.mutable_net()->add_layers() = layer;
  }
  const auto net = models::BuildNet(model, frozen.net.input(), frozen.net.classes());
  ASSERT_TRUE(net.ok()) << net.status().message();
  Problem trained(*net, frozen.batch);
  const size_t num_added_parameters = trained.parameters.size() - frozen.parameters.size();
  std::copy(frozen.parameters.begin(), frozen.parameters.end(),
            trained.parameters.begin() + static_cast<ptrdiff_t>(num_added_parameters));
  SetToIdentity(&trained, "identity");
  const StepResult expected = RunStep(frozen), actual = RunStep(trained);
  EXPECT_NEAR(actual.loss, expected.loss, 1e-5 * expected.loss);
  ExpectNear(std::span(actual.gradients).subspan(num_added_parameters), expected.gradients, 1e-5,
             "gradients");
}

TEST_P(LayerConformance, GradientsAreFinalWhenReportedFromTheLastToTheFirst) {
  Problem problem = MakeProblem();
  auto net = problem.MakeNet();
  net->Forward({problem.images, problem.labels, problem.batch}, nullptr);
  auto next_parameter = static_cast<uint32_t>(problem.table.parameters.size());
  std::vector<float> gradients_when_ready(problem.table.total);
  net->Backward([&](uint32_t p) {
    EXPECT_EQ(p, --next_parameter);
    const models::Parameter& parameter = problem.table.parameters[p];
    std::copy_n(problem.gradients.data() + parameter.offset, parameter.count,
                gradients_when_ready.data() + parameter.offset);
  });
  EXPECT_EQ(next_parameter, 0u);
  EXPECT_EQ(gradients_when_ready, problem.gradients);
}

TEST_P(LayerConformance, ParametersMayBeWrittenWhenTheForwardPassAsksForThem) {
  Problem problem = MakeProblem();
  auto net = problem.MakeNet();
  const double expected = net->Forward({problem.images, problem.labels, problem.batch}, nullptr);
  const std::vector<float> parameters = problem.parameters;
  std::fill(problem.parameters.begin(), problem.parameters.end(), 1e9f);
  uint32_t next_parameter = 0;
  const auto write_parameter = [&](uint32_t p) {
    EXPECT_EQ(p, next_parameter++);
    const models::Parameter& tensor = problem.table.parameters[p];
    std::copy_n(parameters.data() + tensor.offset, tensor.count,
                problem.parameters.data() + tensor.offset);
    return true;
  };
  EXPECT_EQ(net->Forward({problem.images, problem.labels, problem.batch}, nullptr, write_parameter),
            expected);
  EXPECT_EQ(next_parameter, problem.table.parameters.size());
}

TEST_P(LayerConformance, BackwardDoesNotReadTheImages) {
  const StepResult expected = RunStep(MakeProblem());
  Problem problem = MakeProblem();
  auto net = problem.MakeNet();
  net->Forward({problem.images, problem.labels, problem.batch}, nullptr);
  std::fill(problem.images.begin(), problem.images.end(), 1e9f);
  net->Backward(nullptr);
  EXPECT_EQ(problem.gradients, expected.gradients);
}

// --- Reproducibility

TEST_P(LayerConformance, TwoRunsWithTheSameNumberOfThreadsGiveTheSameBits) {
  const StepResult result_with_one_thread = RunStep(MakeProblem());
  EXPECT_EQ(RunStep(MakeProblem()), result_with_one_thread);
  const ScopedThreadCount two_threads(2);
  const StepResult result_with_two_threads = RunStep(MakeProblem());
  EXPECT_EQ(RunStep(MakeProblem()), result_with_two_threads);
  EXPECT_NEAR(result_with_two_threads.loss, result_with_one_thread.loss,
              1e-6 * result_with_one_thread.loss);
  ExpectNear(result_with_two_threads.gradients, result_with_one_thread.gradients, 1e-5,
             "gradients");
  ExpectNear(result_with_two_threads.statistics, result_with_one_thread.statistics, 1e-6,
             "statistics");
}

TEST_P(LayerConformance, EvaluatingChangesNothing) {
  Problem problem = MakeProblem();
  const std::vector<float> parameters = problem.parameters, gradients = problem.gradients,
                           statistics = problem.statistics, images = problem.images;
  auto net = problem.MakeNet(/*training=*/false);
  const double first_loss = net->Forward({problem.images, problem.labels, problem.batch}, nullptr);
  EXPECT_EQ(net->Forward({problem.images, problem.labels, problem.batch}, nullptr), first_loss);
  EXPECT_EQ(problem.parameters, parameters);
  EXPECT_EQ(problem.gradients, gradients);
  EXPECT_EQ(problem.statistics, statistics);
  EXPECT_EQ(problem.images, images);
}

// --- Batches

TEST_P(LayerConformance, ASampleAloneHasTheScoresThatItHasInABatch) {
  Problem problem = MakeProblem();
  const size_t classes = problem.net.classes();
  std::vector<float> batch_scores(problem.batch * classes), single_scores(classes);
  problem.MakeNet(false)->Forward({problem.images, problem.labels, problem.batch, 0, batch_scores},
                                  nullptr);
  Problem single_problem(problem.net, 1);
  auto net = single_problem.MakeNet(/*training=*/false);
  const size_t image_size = single_problem.images.size();
  for (uint32_t n = 0; n < problem.batch; ++n) {
    net->Forward({std::span(problem.images).subspan(n * image_size, image_size),
                  std::span(problem.labels).subspan(n, 1), 1, 0, single_scores},
                 nullptr);
    ExpectNear(single_scores, std::span(batch_scores).subspan(n * classes, classes), 1e-5,
               "sample " + std::to_string(n));
  }
}

// --- Values that are not finite

// Nothing may hide that a net has diverged: not a ReLU of NaN, for example, and not a maximum. No
// sample is right then.
TEST_P(LayerConformance, NaNInAParameterOrAnImageIsNaNInTheLoss) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Problem problem = MakeProblem();
  const auto loss_of = [&problem](bool training) {
    Score score;
    const double loss =
        problem.MakeNet(training)->Forward({problem.images, problem.labels, problem.batch}, &score);
    EXPECT_TRUE(std::isfinite(loss) || score.among_five < problem.batch);
    return loss;
  };
  for (const models::Parameter& parameter : problem.table.parameters) {
    const std::vector<float> before = problem.parameters;
    std::fill_n(problem.parameters.begin() + parameter.offset, parameter.count, nan);
    EXPECT_TRUE(std::isnan(loss_of(/*training=*/false))) << parameter.name;
    problem.parameters = before;
  }
  EXPECT_TRUE(std::isfinite(loss_of(/*training=*/true)));
  std::fill(problem.images.begin(), problem.images.end(), nan);
  EXPECT_TRUE(std::isnan(loss_of(/*training=*/true)));
}

// --- The net as text

TEST_P(LayerConformance, NetsComeBackFromTheirText) {
  const pb::NetDef net = NetOf(GetParam());
  std::string net_text;
  ASSERT_TRUE(TextFormat::PrintToString(net, &net_text));
  pb::Model model;
  ASSERT_TRUE(TextFormat::ParseFromString(net_text, model.mutable_net()));
  const auto rebuilt = models::BuildNet(model, net.input(), net.classes());
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.status().message();
  EXPECT_EQ(rebuilt->SerializeAsString(), net.SerializeAsString());
  EXPECT_EQ(models::ModelDigest(*rebuilt), models::ModelDigest(net));
}

INSTANTIATE_TEST_SUITE_P(Nets, LayerConformance, testing::ValuesIn(NetCases()),
                         [](const auto& info) { return info.param.name; });

TEST(LayerDigests, DifferFromNetToNet) {
  std::map<uint64_t, std::string> names_by_digest;
  for (const NetCase& c : NetCases()) {
    const auto [entry, inserted] = names_by_digest.emplace(models::ModelDigest(NetOf(c)), c.name);
    EXPECT_TRUE(inserted) << c.name << " has the digest of " << entry->second;
  }
}

// A new layer type needs a network in layer_cases.cc, because the tests above run only on the
// networks there.
TEST(LayerTables, EveryLayerHasRulesAndACase) {
  std::set<pb::LayerDef::KindCase> tested_kinds;
  for (const NetCase& c : NetCases()) {
    const pb::NetDef net = NetOf(c);
    for (const pb::LayerDef& layer : net.layers()) tested_kinds.insert(layer.kind_case());
  }
  const auto* kinds = pb::LayerDef::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kinds->field_count(); ++i) {
    const auto kind = static_cast<pb::LayerDef::KindCase>(kinds->field(i)->number());
    const models::LayerRules* rules = models::FindRules(kind);
    ASSERT_NE(rules, nullptr) << kinds->field(i)->name() << " has no line in layer_rules.cc";
    EXPECT_EQ(rules->name, kinds->field(i)->name());
    EXPECT_TRUE(tested_kinds.contains(kind)) << rules->name << " has no net in layer_cases.cc";
  }
}

}  // namespace
}  // namespace tern::engine
