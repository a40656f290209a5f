// Tests of `tern model`: its table of layers, and the definition of a network that it prints.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "models/graph/shapes.h"
#include "models/models.h"
#include "setup/setup.h"
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

TEST(Model, PrintsASectionOfAJob) {
  TestJob job;
  for (const std::string name : {"googlenet", "resnet20", "alexnet", "mobilenet"}) {
    TestProgram& tern = job.StartTern({"model", name, "--yaml", "--classes", "10"});
    ASSERT_EQ(tern.Wait(), 0) << tern.err();
    EXPECT_THAT(tern.out(), testing::StartsWith("model:\n  net:\n    name: "));
    std::ofstream(job.folder() + "/own.yaml")
        << "servers: [{address: 127.0.0.1:7500}]\nworkers: {count: 1}\ndata: {dir: d}\n"
        << "train: {batch_total: 1, steps: 1}\n"
        << tern.out();
    const auto setup = setup::MakeSetup(job.folder() + "/own.yaml", {});
    ASSERT_TRUE(setup.ok()) << setup.status().message();
    TestProgram& again = job.StartTern({"model", job.folder() + "/own.yaml", "--yaml"});
    ASSERT_EQ(again.Wait(), 0) << again.err();
    EXPECT_EQ(again.out(), tern.out());
  }
}

TEST(Model, ShowsTheNetworkOfAJob) {
  TestJob job;
  TestProgram& of_job = job.StartTern({"model", job.job_file()});
  ASSERT_EQ(of_job.Wait(), 0) << of_job.err();
  TestProgram& by_name = job.StartTern({"model", "lenet"});
  ASSERT_EQ(by_name.Wait(), 0) << by_name.err();
  EXPECT_EQ(of_job.out(), by_name.out());
  TestProgram& changed = job.StartTern({"model", job.job_file(), "--classes", "5"});
  EXPECT_EQ(changed.Wait(), 64);
  EXPECT_THAT(changed.err(), HasSubstr("--classes applies to the name of a known network only"));
  TestProgram& with_key = job.StartTern({"model", job.job_file(), "--set", "model.classes=5"});
  TestProgram& by_flag = job.StartTern({"model", "lenet", "--classes", "5"});
  EXPECT_EQ(with_key.Wait(), 0) << with_key.err();
  EXPECT_EQ(by_flag.Wait(), 0) << by_flag.err();
  EXPECT_EQ(with_key.out(), by_flag.out());
  TestProgram& of_name = job.StartTern({"model", "lenet", "--set", "model.classes=5"});
  EXPECT_EQ(of_name.Wait(), 64);
  EXPECT_THAT(of_name.err(), HasSubstr("--set applies to the file of a job only"));
}

TEST(Model, SaysThisNetworkOfOneWithoutAName) {
  TestJob job;
  const std::string path = job.folder() + "/net.json";
  std::ofstream(path) << R"({"input": {"channels": 1, "height": 4, "width": 4}, "classes": 2,
      "layers": [{"name": "fc", "inputs": ["data"], "dense": {"outputs": 2}},
                 {"name": "loss", "inputs": ["fc", "label"], "softmax_loss": {}}]})";
  TestProgram& tern = job.StartTern({"model", path});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), HasSubstr("\nthis network: 34 parameters, "));
}

TEST(Model, ListsTheKnownNetworks) {
  TestJob job;
  TestProgram& no_name_run = job.StartTern({"model"});
  EXPECT_EQ(no_name_run.Wait(), 64);
  EXPECT_THAT(no_name_run.err(), HasSubstr("NET is missing"));
  TestProgram& misspelt_name_run = job.StartTern({"model", "lenett"});
  EXPECT_EQ(misspelt_name_run.Wait(), 64);
  EXPECT_THAT(misspelt_name_run.err(),
              HasSubstr("no network 'lenett'; did you mean lenet? known: lenet, cifarnet"));
}

}  // namespace
}  // namespace tern::e2e
