// Tests of `tern convert onnx`: the contents of the ONNX file that it writes, and errors. The tests
// in tests/torch run such files.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/tensors/safetensors.h"
#include "models/graph/arena.h"
#include "models/graph/shapes.h"
#include "models/models.h"
#include "tests/e2e/job_fixture.h"
#include "tools/convert/onnx_graph.h"

namespace tern::tools {
namespace {

using e2e::TestJob;
using e2e::TestProgram;
using testing::ElementsAre;
using testing::HasSubstr;

pb::NetDef MakeNet(const std::string& layers, uint32_t channels, uint32_t image_side) {
  pb::Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(layers, model.mutable_net()));
  pb::ImageShape image;
  image.set_channels(channels);
  image.set_height(image_side);
  image.set_width(image_side);
  const auto net = models::BuildNet(model, image, 4);
  EXPECT_TRUE(net.ok()) << net.status().message();
  return *net;
}

// The initial weights of a net, as if read from a file.
tensors::TensorFile InitialWeightsOf(const pb::NetDef& net) {
  const models::ParameterTable table = *models::MakeParameterTable(net);
  std::vector<float> parameters(table.total), statistics(table.statistics_total);
  models::InitParameters(table, 1, parameters.data());
  models::InitStatistics(table, statistics.data());
  auto views = models::ViewArena(table, parameters.data());
  for (auto& view : models::ViewStatistics(table, statistics.data())) views.push_back(view);
  return *tensors::DecodeSafetensors(tensors::EncodeSafetensors(views, {}));
}

std::vector<int64_t> IntsOfAttribute(const pb::onnx::Node& node, const std::string& name) {
  for (const pb::onnx::Attribute& attribute : node.attribute())
    if (attribute.name() == name) return {attribute.ints().begin(), attribute.ints().end()};
  return {};
}

std::vector<std::string> NodeTypesOf(const pb::onnx::Model& model) {
  std::vector<std::string> types;
  for (const pb::onnx::Node& node : model.graph().node()) types.push_back(node.op_type());
  return types;
}

TEST(Onnx, HasTheLayersOfTheNetWithoutDropoutAndLoss) {
  const pb::NetDef net = MakeNet(R"(
      layers { name: 'a' conv { outputs: 5 kernel: 3 stride: 2 padding: same } }
      layers { name: 'b' batch_norm {} }
      layers { name: 'c' relu { max: 6 } }
      layers { name: 'd' dropout {} }
      layers { name: 'e' dense { outputs: 4 } }
      layers { name: 'f' softmax_loss {} })",
                                 3, 8);
  const auto model = MakeOnnx(net, InitialWeightsOf(net));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(NodeTypesOf(*model),
              ElementsAre("Conv", "BatchNormalization", "Clip", "Flatten", "Gemm", "Flatten"));
  EXPECT_THAT(IntsOfAttribute(model->graph().node(0), "pads"), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(IntsOfAttribute(model->graph().node(0), "strides"), ElementsAre(2, 2));
  std::map<std::string, const pb::onnx::Tensor*> tensors;
  for (const auto& tensor : model->graph().initializer()) tensors[tensor.name()] = &tensor;
  for (const char* name : {"a.weight", "a.bias", "b.weight", "b.running_var", "e.weight"})
    EXPECT_TRUE(tensors.contains(name)) << name;
  EXPECT_THAT(tensors["a.weight"]->dims(), ElementsAre(5, 3, 3, 3));
  EXPECT_EQ(tensors["a.weight"]->raw_data().size(), 5u * 3 * 3 * 3 * 4);
}

TEST(Onnx, ReshapesAFlatInputOfALayerThatNeedsAnImage) {
  const pb::NetDef net = MakeNet(R"(
      layers { name: 'a' dense { outputs: 6 } }
      layers { name: 'b' relu {} }
      layers { name: 'c' conv { outputs: 4 kernel: 1 } }
      layers { name: 'd' softmax_loss {} })",
                                 2, 3);
  const auto model = MakeOnnx(net, InitialWeightsOf(net));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(NodeTypesOf(*model),
              ElementsAre("Flatten", "Gemm", "Relu", "Unsqueeze", "Conv", "Flatten"));
}

TEST(Onnx, HasTheNamesOfTheClassesInItsMetadata) {
  const pb::NetDef net = MakeNet(
      "layers { name: 'a' dense { outputs: 4 } } "
      "layers { name: 'f' softmax_loss {} }",
      1, 2);
  EXPECT_EQ(MakeOnnx(net, InitialWeightsOf(net))->metadata_props_size(), 0);
  const auto model = MakeOnnx(net, InitialWeightsOf(net), {"cat", "big \"dog\""});
  ASSERT_TRUE(model.ok());
  ASSERT_EQ(model->metadata_props_size(), 1);
  EXPECT_EQ(model->metadata_props(0).key(), "class_names");
  EXPECT_EQ(model->metadata_props(0).value(), R"(["cat","big \"dog\""])");
}

TEST(Onnx, RefusesTheWeightsOfAnotherNet) {
  const pb::NetDef net = MakeNet(
      "layers { name: 'a' dense { outputs: 4 } } "
      "layers { name: 'f' softmax_loss {} }",
      1, 2);
  const auto model = MakeOnnx(net, {});
  EXPECT_EQ(model.status().code(), Code::kBadData);
  EXPECT_THAT(model.status().message(), HasSubstr("\"a.weight\" is missing"));
}

TEST(ConvertOnnx, ReportsErrors) {
  const struct {
    std::vector<std::string> arguments;
    int code;
    const char* error;
  } bad_conversions[] = {
      {{"convert"}, 64, "tern convert needs a word after it; known: pack, onnx"},
      {{"convert", "jpeg"}, 64, "no command 'convert jpeg'; known: pack, onnx"},
      {{"convert", "onnx", "lenet"}, 64, "WEIGHTS is missing"},
      {{"convert", "onnx", "lenot", "w", "o"},
       64,
       "there is no network 'lenot'; did you mean lenet? known: lenet, "},
      {{"convert", "onnx", "net.json", "w", "o"}, 65, "cannot open net.json"},
      {{"convert", "onnx", "net.json", "w", "o", "--classes", "9"}, 64, "--classes applies to"},
      {{"convert", "onnx", "lenet", "/nowhere", "o"}, 65, "cannot open /nowhere"},
      {{"convert", "onnx", "lenet", "/etc/passwd", "/etc/../etc/passwd"},
       64,
       "/etc/../etc/passwd is read by this command"},
  };
  TestJob job;
  for (const auto& bad_conversion : bad_conversions) {
    TestProgram& tern = job.StartTern(bad_conversion.arguments);
    EXPECT_EQ(tern.Wait(), bad_conversion.code) << bad_conversion.error;
    EXPECT_THAT(tern.err(), HasSubstr(bad_conversion.error));
  }
}

}  // namespace
}  // namespace tern::tools
