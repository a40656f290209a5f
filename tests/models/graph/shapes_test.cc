// Tests of PlanAxis, which computes output sizes and padding of windows along one axis, and of
// ModelDigest, a hash of a network.
#include "models/graph/shapes.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/models/net_text.h"

namespace tern::models {
namespace {

TEST(PlanAxis, ValidCountsTheWindowsThatFit) {
  for (uint32_t input = 1; input <= 20; ++input) {
    for (uint32_t kernel = 1; kernel <= input; ++kernel) {
      for (uint32_t stride = 1; stride <= 5; ++stride) {
        uint32_t num_windows = 0;
        for (uint32_t begin = 0; begin + kernel <= input; begin += stride) ++num_windows;
        const auto plan = PlanAxis(input, {.kernel = kernel, .stride = stride});
        ASSERT_TRUE(plan.ok());
        EXPECT_EQ(plan->num_outputs, num_windows);
        EXPECT_EQ(plan->pad_begin + plan->pad_end, 0u);
      }
    }
  }
}

TEST(PlanAxis, SameGivesInputOverStrideRoundedUp) {
  for (uint32_t input = 1; input <= 20; ++input) {
    for (uint32_t kernel = 1; kernel <= 9; ++kernel) {
      for (uint32_t stride = 1; stride <= 5; ++stride) {
        const auto plan =
            PlanAxis(input, {.kernel = kernel, .stride = stride, .padding = pb::Pad::same});
        ASSERT_TRUE(plan.ok());
        EXPECT_EQ(plan->num_outputs, (input + stride - 1) / stride);
        const uint32_t pad_difference = plan->pad_end - plan->pad_begin;
        EXPECT_LE(pad_difference, 1u);
        // No window lies entirely in the padding, and less padding would not suffice.
        EXPECT_LT(plan->pad_begin, kernel);
        const uint32_t last_window_begin = (plan->num_outputs - 1) * stride;
        EXPECT_LT(last_window_begin, input + plan->pad_begin);
        const uint32_t padded_size = input + plan->pad_begin + plan->pad_end;
        EXPECT_GE(padded_size, last_window_begin + kernel);
        EXPECT_TRUE(padded_size == input || padded_size == last_window_begin + kernel);
      }
    }
  }
}

TEST(PlanAxis, RefusesSizesOutOfBounds) {
  constexpr auto kSame = pb::Pad::same;
  EXPECT_FALSE(PlanAxis(0, {.padding = kSame}).ok());
  EXPECT_FALSE(PlanAxis(4, {.kernel = 0, .padding = kSame}).ok());
  EXPECT_FALSE(PlanAxis(4, {.stride = 0}).ok());
  EXPECT_FALSE(PlanAxis(4'294'967'295u, {.kernel = 2, .padding = kSame}).ok());
  EXPECT_FALSE(PlanAxis(4, {.kernel = 5}).ok());
  EXPECT_FALSE(PlanAxis(4, {.kernel = 3, .dilation = 2}).ok());
  EXPECT_TRUE(PlanAxis(65'536, {.kernel = 65'536, .stride = 65'536, .padding = kSame}).ok());
}

TEST(PlanAxis, CountsPaddingOnBothSidesAndTheGapsOfADilatedKernel) {
  const auto padded_plan = PlanAxis(7, {.kernel = 3, .stride = 2, .pad = 1});
  ASSERT_TRUE(padded_plan.ok());
  EXPECT_EQ(padded_plan->num_outputs, 4u);
  EXPECT_EQ(padded_plan->pad_begin, 1u);
  EXPECT_EQ(padded_plan->pad_end, 1u);
  EXPECT_EQ(PlanAxis(7, {.kernel = 3, .dilation = 3})->num_outputs, 1u);
  const auto same_plan = PlanAxis(7, {.kernel = 2, .dilation = 3, .padding = pb::Pad::same});
  EXPECT_EQ(same_plan->num_outputs, 7u);
  EXPECT_EQ(same_plan->pad_begin + same_plan->pad_end, 3u);
}

TEST(ModelDigest, MatchesGoldenDigest) {
  const auto valid_net = *BuildNet(LeNetModel(pb::Model::valid), MakeImageShape(1, 28, 28), 10);
  const auto same_net = *BuildNet(LeNetModel(pb::Model::same), MakeImageShape(1, 28, 28), 10);
  EXPECT_EQ(ModelDigest(valid_net), 10664928024121923437u);
  EXPECT_EQ(ModelDigest(same_net), 6469477894241892237u);
}

constexpr char kNet[] = R"(layers { name: "c" conv { outputs: 2 kernel: 3 } }
                           layers { name: "p" max_pool { kernel: 2 } }
                           layers { name: "d" dense { outputs: 3 } }
                           layers { name: "l" softmax_loss {} })";

TEST(ModelDigest, IgnoresWhetherDefaultsAreWritten) {
  pb::NetDef net_without_defaults = ModelOfLayers(kNet).net();
  *net_without_defaults.mutable_input() = MakeImageShape(1, 8, 8);
  net_without_defaults.set_classes(3);
  pb::NetDef net_with_defaults = *BuildNetOfLayers(kNet);
  net_with_defaults.set_name("a name of one's own");
  EXPECT_EQ(ModelDigest(net_without_defaults), ModelDigest(net_with_defaults));
}

TEST(ModelDigest, DependsOnEverythingElse) {
  const pb::NetDef net = *BuildNetOfLayers(kNet);
  std::set<uint64_t> digests = {ModelDigest(net)};
  const auto expect_new_digest = [&](const auto& change) {
    pb::NetDef changed_net = net;
    change(&changed_net);
    EXPECT_TRUE(digests.insert(ModelDigest(changed_net)).second) << changed_net.DebugString();
  };
  expect_new_digest([](pb::NetDef* n) { n->mutable_input()->set_height(10); });
  expect_new_digest([](pb::NetDef* n) { n->mutable_input()->set_width(10); });
  expect_new_digest([](pb::NetDef* n) { n->mutable_input()->set_channels(2); });
  expect_new_digest([](pb::NetDef* n) { n->set_classes(4); });
  expect_new_digest([](pb::NetDef* n) { n->mutable_layers(2)->set_name("e"); });
  expect_new_digest([](pb::NetDef* n) { n->mutable_layers(0)->mutable_conv()->set_outputs(4); });
  expect_new_digest([](pb::NetDef* n) { n->mutable_layers(0)->mutable_conv()->set_kernel(1); });
  expect_new_digest([](pb::NetDef* n) { n->mutable_layers(0)->mutable_conv()->set_stride(2); });
  expect_new_digest(
      [](pb::NetDef* n) { n->mutable_layers(0)->mutable_conv()->set_padding(pb::Pad::same); });
  expect_new_digest([](pb::NetDef* n) { n->mutable_layers(1)->mutable_max_pool()->set_kernel(3); });
  expect_new_digest([](pb::NetDef* n) { n->mutable_layers(1)->mutable_max_pool()->set_stride(1); });
  const auto weight_init_of = [](pb::NetDef* n) {
    return n->mutable_layers(2)->mutable_dense()->mutable_weight_init();
  };
  expect_new_digest([&](pb::NetDef* n) { weight_init_of(n)->set_normal_std(0.1f); });
  expect_new_digest([&](pb::NetDef* n) { weight_init_of(n)->set_normal_std(0.2f); });
  expect_new_digest([&](pb::NetDef* n) { weight_init_of(n)->set_truncated_normal_std(0.1f); });
  expect_new_digest([&](pb::NetDef* n) { weight_init_of(n)->set_constant(0.1f); });
  expect_new_digest([](pb::NetDef* n) {
    n->mutable_layers(2)->mutable_dense()->mutable_bias_init()->set_constant(0.1f);
  });
  expect_new_digest([](pb::NetDef* n) { n->mutable_layers(1)->mutable_relu(); });
}

}  // namespace
}  // namespace tern::models
