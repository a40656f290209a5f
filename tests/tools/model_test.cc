// Tests of `tern model`: its table of layers, and the network (NetDef) that it prints.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "models/graph/shapes.h"
#include "models/models.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

TEST(Model, PrintsEveryLayerWithItsParametersAndOperations) {
  TestJob job;
  TestProgram& tern = job.StartTern({"model", "lenet"});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  // 25050 = 50 x 20 x 5 x 5 weights + 50 biases; 3.203 = (2 x 25000 + 50) x 8 x 8 pixels / 10^6.
  EXPECT_THAT(tern.out(), ContainsRegex("conv2 +conv +pool1 +50 x 8 x 8 +25050 +3.203\n"));
  EXPECT_THAT(tern.out(), HasSubstr("lenet: 431080 parameters, 0 statistics of batch norms; 4.6"));
  EXPECT_THAT(tern.out(), HasSubstr("for one image of 1 x 28 x 28\n"));
}

TEST(Model, TakesAnotherImageSize) {
  TestJob job;
  TestProgram& tern = job.StartTern(
      {"model", "vgg16", "--height", "32", "--width", "32", "--classes", "10", "--batch_norm"});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), HasSubstr("vgg16: 14728266 parameters, 8448 statistics"));
}

TEST(Model, PrintsANetDefThatCanBeBuilt) {
  TestJob job;
  TestProgram& tern = job.StartTern({"model", "resnet50", "--netdef"});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  pb::Model model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(tern.out(), model.mutable_net()));
  const auto net = models::BuildNet(model, model.net().input(), model.net().classes());
  ASSERT_TRUE(net.ok()) << net.status().message();
  EXPECT_EQ(models::MakeParameterTable(*net)->total, 25'557'032u);
}

TEST(Model, RefusesAHugeNetDef) {
  TestJob job;
  const std::string path = job.folder() + "/net.json";
  std::ofstream(path) << std::string((16 << 20) + 1, ' ');
  TestProgram& tern = job.StartTern({"convert", "onnx", path, "none.safetensors", "none.onnx"});
  EXPECT_EQ(tern.Wait(), 65);
  EXPECT_THAT(tern.err(), HasSubstr("net.json has more than 16777216 bytes, the most allowed"));
}

TEST(Model, ListsTheKnownNetworks) {
  TestJob job;
  TestProgram& no_name_run = job.StartTern({"model"});
  EXPECT_EQ(no_name_run.Wait(), 64);
  EXPECT_THAT(no_name_run.err(), HasSubstr("known: lenet, cifarnet"));
  TestProgram& misspelt_name_run = job.StartTern({"model", "lenett"});
  EXPECT_EQ(misspelt_name_run.Wait(), 78);
  EXPECT_THAT(misspelt_name_run.err(), HasSubstr("\"lenett\" is not known"));
}

}  // namespace
}  // namespace tern::e2e
