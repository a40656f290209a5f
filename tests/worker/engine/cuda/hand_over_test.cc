// Gradients that stay on a GPU are handed over to who encodes them before they are computed.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/codec/codecs.h"
#include "tests/worker/engine/problem.h"
#include "worker/device/device_model.h"

namespace tern::engine {
namespace {

// A net whose weights and gradients are in a model on the device.
struct NetOfModel {
  explicit NetOfModel(Problem* problem) : codec(std::move(*codec::MakeCodec("ternary", {}))) {
    std::vector<kernels::Part> parts;
    for (uint32_t t = 0; t < problem->table.parameters.size(); ++t) {
      const models::Parameter& tensor = problem->table.parameters[t];
      parts.push_back({.begin = tensor.offset, .count = tensor.count, .first = 0, .tensor = t});
    }
    device::DeviceModel::Layout layout;
    layout.elements = problem->table.total;
    layout.buckets = layout.chunks = {parts};
    layout.columns.resize(parts.size(), 1);
    layout.codec = codec.get();
    model = std::move(*device::DeviceModel::Make(layout));
    EXPECT_TRUE(model->CopyToDevice({problem->parameters.data(), {}}).ok());
    Net::Arenas arenas;
    arenas.statistics = problem->statistics.data();
    arenas.model = model.get();
    net = std::move(*Net::Make(
        problem->net, {.device = Device::kCuda, .batch = problem->batch, .seed = Problem::kSeed},
        arenas));
  }
  const std::unique_ptr<codec::Codec> codec;
  std::unique_ptr<device::DeviceModel> model;
  std::unique_ptr<Net> net;
};

constexpr const char* kLayers =
    "conv { outputs: 6 kernel: 3 }; relu {}; dense { outputs: 20 }; relu {}; dense { outputs: 10 }";

// What is read in `ready` of the last parameter, by a launch of the thread that encodes, is the
// gradient of this step.
TEST(HandOver, LetsTheCoderFollowTheBackwardPass) {
  Problem problem(MakeChain(kLayers, MakeImageShape(2, 9, 9), 10), 4);
  const auto host_net = problem.MakeNet();
  NetOfModel with_model(&problem);
  for (uint64_t step = 1; step <= 4; ++step) {
    for (float& pixel : problem.images) pixel *= 0.5f;
    const Net::Feed feed{
        .images = problem.images, .labels = problem.labels, .used = 4, .step = step};
    host_net->Forward(feed, nullptr);
    host_net->Backward(nullptr);
    std::vector<float> handed_over(problem.table.total);
    with_model.net->Forward(feed, nullptr);
    with_model.net->Backward([&](uint32_t p) {
      if (p != 0) return;
      EXPECT_TRUE(with_model.model->codes().CopyGradientsToHost(step, 0, handed_over).ok());
    });
    ASSERT_TRUE(with_model.net->status().ok()) << with_model.net->status().message();
    EXPECT_EQ(handed_over, problem.gradients) << "step " << step;
  }
}

}  // namespace
}  // namespace tern::engine
