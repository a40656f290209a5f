#include "worker/engine/cuda/stored_channels.h"

#include <gmock/gmock.h>

#include "tests/worker/engine/problem.h"

namespace tern::engine::cuda {
namespace {

// The channels that images with `channels` channels have in memory, of a net of these layers.
uint32_t StoredIn(const pb::NetDef& def, Precision precision) {
  const auto layers = PlanLayers(def, {.batch = 2}, *models::MakeParameterTable(def), {}, nullptr,
                                 [](auto) { return true; });
  EXPECT_TRUE(layers.ok()) << layers.status().message();
  return StoredChannels(*layers, precision, def.input().channels());
}

pb::NetDef NetWith(const std::string& first_layer, uint32_t channels) {
  return MakeChain(first_layer + "; dense { outputs: 10 }", MakeImageShape(channels, 8, 8), 10);
}

TEST(StoredChannels, AreWhatTensorCoresTake) {
  const std::string conv = "conv { outputs: 4 kernel: 3 }";
  EXPECT_EQ(StoredIn(NetWith(conv, 3), Precision::kBf16), 8u);
  EXPECT_EQ(StoredIn(NetWith(conv, 3), Precision::kFp16), 8u);
  EXPECT_EQ(StoredIn(NetWith(conv, 3), Precision::kTf32), 4u);
  EXPECT_EQ(StoredIn(NetWith(conv, 3), Precision::kFp32), 3u);
  EXPECT_EQ(StoredIn(NetWith(conv, 12), Precision::kBf16), 16u);
  EXPECT_EQ(StoredIn(NetWith(conv, 16), Precision::kBf16), 16u);
  EXPECT_EQ(StoredIn(NetWith(conv, 1), Precision::kBf16), 1u) << "most would be zeros";
}

TEST(StoredChannels, AreTheNetsIfOtherLayersReadImages) {
  EXPECT_EQ(StoredIn(NetWith("max_pool { kernel: 2 stride: 2 }", 3), Precision::kBf16), 3u);
  EXPECT_EQ(StoredIn(NetWith("conv { outputs: 6 kernel: 3 groups: 3 }", 3), Precision::kBf16), 3u);
  EXPECT_EQ(StoredIn(NetWith("relu {}", 3), Precision::kBf16), 3u);
  const pb::NetDef two_readers = MakeChain(
      "conv { outputs: 3 kernel: 1 }; add {} inputs: 'a' inputs: 'data'; dense { outputs: 10 }",
      MakeImageShape(3, 8, 8), 10);
  EXPECT_EQ(StoredIn(two_readers, Precision::kBf16), 3u);
}

// On a CPU, TF32 is fp32, so that only the zeros differ.
TEST(StoredChannels, OfZerosChangeNoBit) {
  std::vector<float> gradients;
  for (const Precision precision : {Precision::kFp32, Precision::kTf32}) {
    Problem problem(
        MakeChain("conv { outputs: 5 kernel: 3 stride: 2 pad: 1 }; relu {}; dense { outputs: 10 }",
                  MakeImageShape(3, 9, 9), 10),
        4);
    const auto net = problem.MakeNet(/*training=*/true, precision);
    net->Forward({problem.images, problem.labels, 4}, nullptr);
    net->Backward(nullptr);
    ASSERT_TRUE(net->status().ok()) << net->status().message();
    if (gradients.empty()) gradients = problem.gradients;
    EXPECT_EQ(problem.gradients, gradients);
  }
}

}  // namespace
}  // namespace tern::engine::cuda
