// Tests that the tensors of the ResNets, VGG networks and AlexNet are the same as in torchvision's
// state dicts (names, shapes and order, except num_batches_tracked), so that weights can be
// exchanged.
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
using TensorKeys = std::vector<std::pair<std::string, Shape>>;

// The expected names and shapes of a model's tensors, built layer by layer: weights and biases, and
// separately the running statistics of batch norms.
struct ExpectedKeys {
  TensorKeys parameters, statistics;

  void AddConv(const std::string& name, uint64_t outputs, uint64_t inputs, uint64_t kernel,
               bool has_bias) {
    parameters.push_back({name + ".weight", {outputs, inputs, kernel, kernel}});
    if (has_bias) parameters.push_back({name + ".bias", {outputs}});
  }
  void AddNorm(const std::string& name, uint64_t channels) {
    parameters.push_back({name + ".weight", {channels}});
    parameters.push_back({name + ".bias", {channels}});
    statistics.push_back({name + ".running_mean", {channels}});
    statistics.push_back({name + ".running_var", {channels}});
  }
  void AddLinear(const std::string& name, uint64_t outputs, uint64_t inputs) {
    parameters.push_back({name + ".weight", {outputs, inputs}});
    parameters.push_back({name + ".bias", {outputs}});
  }
};

ExpectedKeys ResNetKeys(const std::vector<int>& num_blocks_by_stage) {
  ExpectedKeys keys;
  keys.AddConv("conv1", 64, 3, 7, false);
  keys.AddNorm("bn1", 64);
  uint64_t inputs = 64, width = 64;
  for (size_t stage = 0; stage < num_blocks_by_stage.size(); ++stage, width *= 2) {
    for (int block = 0; block < num_blocks_by_stage[stage]; ++block) {
      const std::string prefix =
          "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
      keys.AddConv(prefix + "conv1", width, inputs, 1, false);
      keys.AddNorm(prefix + "bn1", width);
      keys.AddConv(prefix + "conv2", width, width, 3, false);
      keys.AddNorm(prefix + "bn2", width);
      keys.AddConv(prefix + "conv3", 4 * width, width, 1, false);
      keys.AddNorm(prefix + "bn3", 4 * width);
      if (block == 0) {
        keys.AddConv(prefix + "downsample.0", 4 * width, inputs, 1, false);
        keys.AddNorm(prefix + "downsample.1", 4 * width);
      }
      inputs = 4 * width;
    }
  }
  keys.AddLinear("fc", 1000, 2048);
  return keys;
}

// conv_indices[i] is the index of convolution i in torchvision's module `features`. In variants
// with batch norm, a norm follows each convolution.
ExpectedKeys VggKeys(const std::vector<int>& conv_indices, const std::vector<uint64_t>& outputs,
                     bool has_norms) {
  ExpectedKeys keys;
  uint64_t inputs = 3;
  for (size_t i = 0; i < conv_indices.size(); ++i) {
    keys.AddConv("features." + std::to_string(conv_indices[i]), outputs[i], inputs, 3, true);
    if (has_norms) keys.AddNorm("features." + std::to_string(conv_indices[i] + 1), outputs[i]);
    inputs = outputs[i];
  }
  keys.AddLinear("classifier.0", 4096, 512 * 7 * 7);
  keys.AddLinear("classifier.3", 4096, 4096);
  keys.AddLinear("classifier.6", 1000, 4096);
  return keys;
}

ExpectedKeys AlexNetKeys() {
  ExpectedKeys keys;
  keys.AddConv("features.0", 64, 3, 11, true);
  keys.AddConv("features.3", 192, 64, 5, true);
  keys.AddConv("features.6", 384, 192, 3, true);
  keys.AddConv("features.8", 256, 384, 3, true);
  keys.AddConv("features.10", 256, 256, 3, true);
  keys.AddLinear("classifier.1", 4096, 9216);
  keys.AddLinear("classifier.4", 4096, 4096);
  keys.AddLinear("classifier.6", 1000, 4096);
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
  TensorKeys parameters, statistics;
  for (const Parameter& p : table.parameters)
    parameters.push_back({p.name, {p.shape.begin(), p.shape.end()}});
  for (const Statistic& s : table.statistics) statistics.push_back({s.name, {s.count}});
  EXPECT_EQ(parameters, expected.parameters);
  EXPECT_EQ(statistics, expected.statistics);
}

TEST(Torchvision, LoadsOurResNets) {
  ExpectKeys("resnet50", false, ResNetKeys({3, 4, 6, 3}));
  ExpectKeys("resnet152", false, ResNetKeys({3, 8, 36, 3}));
}

TEST(Torchvision, LoadsOurVggs) {
  const std::vector<uint64_t> vgg16_outputs = {64,  64,  128, 128, 256, 256, 256,
                                               512, 512, 512, 512, 512, 512};
  ExpectKeys("vgg_a", false,
             VggKeys({0, 3, 6, 8, 11, 13, 16, 18}, {64, 128, 256, 256, 512, 512, 512, 512}, false));
  ExpectKeys("vgg16", false,
             VggKeys({0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28}, vgg16_outputs, false));
  ExpectKeys("vgg16", true,
             VggKeys({0, 3, 7, 10, 14, 17, 20, 24, 27, 30, 34, 37, 40}, vgg16_outputs, true));
}

TEST(Torchvision, LoadsOurAlexNet) { ExpectKeys("alexnet", false, AlexNetKeys()); }

}  // namespace
}  // namespace tern::models
