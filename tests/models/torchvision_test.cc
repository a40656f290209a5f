// Tests that the tensors of models that torchvision also has are the same as in torchvision's state
// dicts (names, shapes and order, except num_batches_tracked), so that weights can be exchanged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "models/graph/shapes.h"
#include "models/models.h"

namespace tern::models {
namespace {

using Shape = std::vector<uint64_t>;
using Keys = std::vector<std::pair<std::string, Shape>>;

// The expected names and shapes of a model's tensors, built layer by layer: weights and biases, and
// separately the running statistics of batch norms.
struct ExpectedKeys {
  Keys parameters, statistics;

  void Conv(const std::string& name, uint64_t outputs, uint64_t inputs, uint64_t kernel,
            bool bias) {
    parameters.push_back({name + ".weight", {outputs, inputs, kernel, kernel}});
    if (bias) parameters.push_back({name + ".bias", {outputs}});
  }
  void Norm(const std::string& name, uint64_t channels) {
    parameters.push_back({name + ".weight", {channels}});
    parameters.push_back({name + ".bias", {channels}});
    statistics.push_back({name + ".running_mean", {channels}});
    statistics.push_back({name + ".running_var", {channels}});
  }
  void Linear(const std::string& name, uint64_t outputs, uint64_t inputs) {
    parameters.push_back({name + ".weight", {outputs, inputs}});
    parameters.push_back({name + ".bias", {outputs}});
  }
};

ExpectedKeys ResNet(const std::vector<int>& blocks) {
  ExpectedKeys keys;
  keys.Conv("conv1", 64, 3, 7, false);
  keys.Norm("bn1", 64);
  uint64_t inputs = 64, width = 64;
  for (size_t stage = 0; stage < blocks.size(); ++stage, width *= 2) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string prefix =
          "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
      keys.Conv(prefix + "conv1", width, inputs, 1, false);
      keys.Norm(prefix + "bn1", width);
      keys.Conv(prefix + "conv2", width, width, 3, false);
      keys.Norm(prefix + "bn2", width);
      keys.Conv(prefix + "conv3", 4 * width, width, 1, false);
      keys.Norm(prefix + "bn3", 4 * width);
      if (block == 0) {
        keys.Conv(prefix + "downsample.0", 4 * width, inputs, 1, false);
        keys.Norm(prefix + "downsample.1", 4 * width);
      }
      inputs = 4 * width;
    }
  }
  keys.Linear("fc", 1000, 2048);
  return keys;
}

// conv_indices[i] is the index of convolution i in torchvision's module `features`. In variants
// with batch norm, a norm follows each convolution.
ExpectedKeys Vgg(const std::vector<int>& conv_indices, const std::vector<uint64_t>& outputs,
                 bool norms) {
  ExpectedKeys keys;
  uint64_t inputs = 3;
  for (size_t i = 0; i < conv_indices.size(); ++i) {
    keys.Conv("features." + std::to_string(conv_indices[i]), outputs[i], inputs, 3, true);
    if (norms) keys.Norm("features." + std::to_string(conv_indices[i] + 1), outputs[i]);
    inputs = outputs[i];
  }
  keys.Linear("classifier.0", 4096, 512 * 7 * 7);
  keys.Linear("classifier.3", 4096, 4096);
  keys.Linear("classifier.6", 1000, 4096);
  return keys;
}

ExpectedKeys AlexNet() {
  ExpectedKeys keys;
  keys.Conv("features.0", 64, 3, 11, true);
  keys.Conv("features.3", 192, 64, 5, true);
  keys.Conv("features.6", 384, 192, 3, true);
  keys.Conv("features.8", 256, 384, 3, true);
  keys.Conv("features.10", 256, 256, 3, true);
  keys.Linear("classifier.1", 4096, 9216);
  keys.Linear("classifier.4", 4096, 4096);
  keys.Linear("classifier.6", 1000, 4096);
  return keys;
}

void ExpectKeys(const std::string& name, bool batch_norm, const ExpectedKeys& expected) {
  pb::Model model;
  model.set_name(name);
  model.set_batch_norm(batch_norm);
  pb::ImageShape image;
  image.set_channels(3);
  image.set_height(224);
  image.set_width(224);
  const auto net = BuildNet(model, image, 1000);
  ASSERT_TRUE(net.ok()) << net.status().message();
  const ParameterTable table = *MakeParameterTable(*net);
  Keys parameters, statistics;
  for (const Parameter& p : table.parameters)
    parameters.push_back({p.name, {p.shape.begin(), p.shape.end()}});
  for (const Statistic& s : table.statistics) statistics.push_back({s.name, {s.count}});
  EXPECT_EQ(parameters, expected.parameters);
  EXPECT_EQ(statistics, expected.statistics);
}

TEST(Torchvision, LoadsOurResNets) {
  ExpectKeys("resnet50", false, ResNet({3, 4, 6, 3}));
  ExpectKeys("resnet152", false, ResNet({3, 8, 36, 3}));
}

TEST(Torchvision, LoadsOurVggs) {
  const std::vector<uint64_t> sixteen = {64,  64,  128, 128, 256, 256, 256,
                                         512, 512, 512, 512, 512, 512};
  ExpectKeys("vgg_a", false,
             Vgg({0, 3, 6, 8, 11, 13, 16, 18}, {64, 128, 256, 256, 512, 512, 512, 512}, false));
  ExpectKeys("vgg16", false, Vgg({0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28}, sixteen, false));
  ExpectKeys("vgg16", true, Vgg({0, 3, 7, 10, 14, 17, 20, 24, 27, 30, 34, 37, 40}, sixteen, true));
}

TEST(Torchvision, LoadsOurAlexNet) { ExpectKeys("alexnet", false, AlexNet()); }

}  // namespace
}  // namespace tern::models
