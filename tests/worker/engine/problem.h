// A net with parameters and a batch of data, which are drawn from a seed.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "common/base/logging.h"
#include "kernels/codes/philox.h"
#include "models/graph/shapes.h"
#include "models/models.h"
#include "tests/worker/engine/device_under_test.h"
#include "tests/worker/engine/reference_net.h"
#include "worker/engine/net.h"

namespace tern::engine {

inline pb::ImageShape MakeImageShape(uint32_t channels, uint32_t height, uint32_t width) {
  pb::ImageShape shape;
  shape.set_channels(channels);
  shape.set_height(height);
  shape.set_width(width);
  return shape;
}

// Makes a net from a list of layers like "conv { ... }; relu {}; ...". The layers get the names a,
// b, c, ...; a softmax_loss is added at the end.
inline pb::NetDef MakeChain(const std::string& layers, const pb::ImageShape& image,
                            uint32_t classes) {
  pb::Model model;
  std::string net_text;
  size_t begin = 0;
  for (char name = 'a'; begin < layers.size(); ++name) {
    const size_t end = std::min(layers.find(';', begin), layers.size());
    net_text +=
        std::string("layers { name: '") + name + "' " + layers.substr(begin, end - begin) + " } ";
    begin = end + 1;
  }
  net_text += "layers { name: 'loss' softmax_loss {} }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(net_text, model.mutable_net()))
      << net_text;
  const auto net = models::BuildNet(model, image, classes);
  EXPECT_TRUE(net.ok()) << net.status().message();
  return *net;
}

inline pb::NetDef MakeLeNet(pb::Model::Padding padding) {
  pb::Model model;
  model.set_name("lenet");
  model.set_padding(padding);
  return *models::BuildNet(model, MakeImageShape(1, 28, 28), 10);
}

// Sets the engine's number of threads for a scope. Elsewhere the tests use one thread, because on a
// busy machine OpenMP's threads wait for each other.
class ScopedThreadCount {
 public:
  explicit ScopedThreadCount(int count) : previous_count_(omp_get_max_threads()) {
    omp_set_num_threads(count);
  }
  ~ScopedThreadCount() { omp_set_num_threads(previous_count_); }

 private:
  const int previous_count_;
};

class Problem {
 public:
  Problem(const pb::NetDef& def, uint32_t batch, uint64_t seed = 1) : net(def), batch(batch) {
    table = *models::MakeParameterTable(net);
    parameters.resize(table.total);
    gradients.assign(table.total, -77);
    statistics.resize(table.statistics_total);
    models::InitStatistics(table, statistics.data());
    models::InitParameters(table, seed, parameters.data());
    // Adds to the biases, so that they are not zero and errors in them are visible.
    for (const models::Parameter& p : table.parameters) {
      for (uint64_t i = 0; p.is_bias && i < p.count; ++i) {
        parameters[p.offset + i] += 0.2f * DrawUniform(seed, 1, p.offset + i);
      }
    }
    const pb::ImageShape& image = net.input();
    images.resize(size_t{batch} * image.channels() * image.height() * image.width());
    for (size_t i = 0; i < images.size(); ++i) images[i] = DrawUniform(seed, 2, i);
    for (uint32_t n = 0; n < batch; ++n) {
      labels.push_back(kernels::Draw32({.seed = seed, .tensor = 3}, n) % net.classes());
    }
  }

  // With a pixel rule the net takes images as bytes, which the rule converts to floats.
  std::unique_ptr<Net> MakeNet(bool training = true, Precision precision = Precision::kFp32,
                               const std::optional<kernels::PixelRule>& pixel_rule = std::nullopt) {
    auto model_net =
        Net::Make(net,
                  {.device = DeviceUnderTest(),
                   .batch = batch,
                   .is_training = training,
                   .seed = kSeed,
                   .precision = precision,
                   .pixels = pixel_rule},
                  {parameters.data(), training ? gradients.data() : nullptr, statistics.data()});
    CHECK(model_net.ok()) << model_net.status().message();
    return std::move(*model_net);
  }

  // The argument of RunReference for a training step on the first `used` samples of the batch.
  ReferenceFeed TrainingReferenceFeed(uint32_t used) const {
    return {.batch = batch,
            .parameters = parameters,
            .statistics = statistics,
            .images = images,
            .labels = labels,
            .used = used,
            .seed = kSeed};
  }
  // The argument of RunReference for an evaluation of the first `used` samples of the batch.
  ReferenceFeed EvaluationReferenceFeed(uint32_t used) const {
    ReferenceFeed feed = TrainingReferenceFeed(used);
    feed.training = false;
    return feed;
  }

  // A random number, uniform in [-1, 1).
  static float DrawUniform(uint64_t seed, uint32_t tensor, uint64_t element) {
    const uint32_t draw = kernels::Draw32({.seed = seed, .tensor = tensor}, element);
    return static_cast<float>(draw * 0x1p-31 - 1);
  }

  static constexpr uint64_t kSeed = 5;  // the seed of dropout's random numbers
  pb::NetDef net;
  uint32_t batch;
  models::ParameterTable table;
  std::vector<float> parameters, gradients, statistics, images;
  std::vector<uint32_t> labels;
};

struct NetCase {
  const char* name;
  const char* layers;
  uint32_t channels, height, width, classes, batch;
};

inline void PrintTo(const NetCase& net_case, std::ostream* out) { *out << net_case.layers; }

// Small nets that together contain every kind of layer with every combination of its options that
// changes the computation.
const std::vector<NetCase>& NetCases();

inline pb::NetDef NetOf(const NetCase& net_case) {
  return MakeChain(net_case.layers,
                   MakeImageShape(net_case.channels, net_case.height, net_case.width),
                   net_case.classes);
}

}  // namespace tern::engine
