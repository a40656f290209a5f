// The model that stays on a GPU, here on the CPU: what comes of its gradients and goes into its
// weights is what the CPU's codec and optimizer make of the same.
#include "worker/engine/device_model.h"

#include <gmock/gmock.h>

#include <array>
#include <cstring>

#include "common/codec/codec.h"
#include "common/codec/mask_signs.h"
#include "common/update/optimizer.h"
#include "kernels/philox.h"
#include "worker/engine/model_cuda.h"

namespace tern::engine {
namespace {

constexpr uint64_t kElements = 12000;
constexpr int kWorkers = 2;

// Two tensors in two buckets; the second one is cut into two chunks, of which the first has the end
// of the first tensor, too.
DeviceModel::Layout TwoTensors(uint32_t slots) {
  const kernels::Part first{.begin = 0, .count = 2000, .first = 0, .tensor = 0, .chunk = 0};
  const kernels::Part second{.begin = 2000, .count = 10000, .first = 0, .tensor = 1, .chunk = 0};
  DeviceModel::Layout layout;
  layout.elements = kElements;
  layout.slots = slots;
  layout.buckets = {{first}, {first, second}};
  layout.chunks = {{{.begin = 0, .count = 1000, .first = 0, .tensor = 0, .chunk = 0}},
                   {{.begin = 1000, .count = 1000, .first = 1000, .tensor = 0, .chunk = 0},
                    {.begin = 2000, .count = 4099, .first = 0, .tensor = 1, .chunk = 0}},
                   {{.begin = 6099, .count = 5901, .first = 4099, .tensor = 1, .chunk = 0}}};
  return layout;
}

std::vector<float> Numbers(uint32_t tensor) {
  std::vector<float> numbers(kElements);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint32_t draw = kernels::Draw32({.seed = 3, .tensor = tensor}, i);
    numbers[i] = (static_cast<float>(draw) * 0x1p-31f - 1) * (i % 7 == 0 ? 1.0f : 0.1f);
  }
  return numbers;
}

class DeviceModelTest : public testing::Test {
 protected:
  void Make(const std::string& optimizer) {
    pb::Optimizer def;
    def.set_name(optimizer);
    optimizer_ = std::move(*update::MakeOptimizer(def, kElements));
    layout_ = TwoTensors(static_cast<uint32_t>(optimizer_->Slots().size()));
    auto made = DeviceModel::Make(layout_);
    ASSERT_TRUE(made.ok()) << made.status().message();
    model_ = std::move(*made);
    const auto& device = static_cast<const cuda::CudaModel&>(*model_);
    std::memcpy(device.gradients(), gradients_.data(), kElements * sizeof(float));
    ASSERT_TRUE(model_->Send(Host()).ok());
  }
  DeviceModel::Host Host() {
    DeviceModel::Host host;
    host.weights = weights_.data();
    for (const auto& slot : optimizer_->Slots()) host.slots.push_back(slot.values.data());
    return host;
  }
  static codec::Segment SegmentOf(const kernels::Part& part) {
    return {.tensor = part.tensor, .begin = part.first, .count = part.count};
  }
  // The planes of a chunk's sums over two workers, one with these gradients and one with their
  // opposites' first half; the scaler is the same for all.
  std::vector<uint8_t> SumsOf(uint32_t chunk) {
    std::vector<uint8_t> sums;
    for (const kernels::Part& part : layout_.chunks[chunk]) {
      const auto sum = ternary_->NewAccumulator(SegmentOf(part), kWorkers);
      for (int rank = 0; rank < kWorkers; ++rank) {
        std::vector<uint8_t> code;
        kernels::NoiseKey noise{.seed = 1, .rank = static_cast<uint16_t>(rank), .round = 1};
        noise.tensor = part.tensor;
        ternary_->Encode(gradients_.data() + part.begin, SegmentOf(part), kPrepared, noise, &code);
        EXPECT_TRUE(sum->Add(rank, code).ok());
      }
      sum->EncodeSum(&sums);
    }
    return sums;
  }
  Status Update(uint32_t chunk, std::span<const uint8_t> sums) {
    const size_t segments = layout_.chunks[chunk].size();
    return model_->Update(chunk, sums, kWorkers, std::vector<float>(segments, kPrepared.scaler),
                          *optimizer_->NumbersOf(kStep),
                          std::vector<kernels::TensorRates>(segments, {.decay = kDecay}));
  }

  static constexpr codec::Prepared kPrepared{.scaler = 0.8f, .clip = 0.7f};
  static constexpr update::Step kStep{0.05, 3};
  static constexpr float kDecay = 0.01f;
  const std::unique_ptr<codec::Codec> ternary_ = std::move(*codec::MakeCodec("ternary", {}));
  std::unique_ptr<update::Optimizer> optimizer_;
  DeviceModel::Layout layout_;
  std::vector<float> weights_ = Numbers(1), gradients_ = Numbers(2);
  std::unique_ptr<DeviceModel> model_;
};

TEST_F(DeviceModelTest, StatisticsAreTheCpus) {
  Make("sgd");
  for (uint32_t b = 0; b < layout_.buckets.size(); ++b) {
    const auto stats = model_->StatsOf(b);
    ASSERT_TRUE(stats.ok());
    ASSERT_EQ(stats->size(), layout_.buckets[b].size());
    for (size_t i = 0; i < stats->size(); ++i) {
      const kernels::Part& part = layout_.buckets[b][i];
      const kernels::Stats own = kernels::ComputeStats(gradients_.data() + part.begin, part.count);
      EXPECT_EQ((*stats)[i].sum, own.sum);
      EXPECT_EQ((*stats)[i].sum_squares, own.sum_squares);
      EXPECT_EQ((*stats)[i].max_abs, own.max_abs);
      EXPECT_TRUE((*stats)[i].finite);
    }
  }
}

TEST_F(DeviceModelTest, CodesAreTheCpus) {
  Make("sgd");
  const kernels::NoiseKey noise{.seed = 9, .rank = 1, .round = 4};
  for (uint32_t c = 0; c < layout_.chunks.size(); ++c) {
    std::vector<uint8_t> expected;
    std::vector<kernels::TernaryScale> scales;
    for (const kernels::Part& part : layout_.chunks[c]) {
      const codec::Prepared prepared{.scaler = 0.5f + 0.1f * part.tensor, .clip = 0.6f};
      codec::AppendMaskSigns(gradients_.data() + part.begin, SegmentOf(part), prepared, noise,
                             &expected);
      scales.push_back({prepared.scaler, prepared.clip});
    }
    const auto code = model_->Encode(c, scales, noise);
    ASSERT_TRUE(code.ok());
    const std::span<const uint8_t> seen = code->span();
    EXPECT_EQ(std::vector<uint8_t>(seen.begin(), seen.end()), expected) << "chunk " << c;
  }
}

// A socket may still send what was coded before.
TEST_F(DeviceModelTest, CodesStayAsTheyAreWhileSomeoneHasThem) {
  Make("sgd");
  const kernels::TernaryScale scale{0.5f, 0.6f};
  const auto first = model_->Encode(0, {&scale, 1}, {.seed = 1});
  ASSERT_TRUE(first.ok());
  const std::vector<uint8_t> before(first->span().begin(), first->span().end());
  const uint8_t* again = nullptr;
  for (uint64_t round = 1; round < 4; ++round) {
    const auto other = model_->Encode(0, {&scale, 1}, {.seed = 1, .round = round});
    ASSERT_TRUE(other.ok());
    EXPECT_NE(other->data(), first->data());
    EXPECT_TRUE(again == nullptr || other->data() == again) << "memory is used again";
    again = other->data();
  }
  EXPECT_EQ(before, std::vector<uint8_t>(first->span().begin(), first->span().end()));
}

class DeviceUpdate : public DeviceModelTest, public testing::WithParamInterface<const char*> {};

TEST_P(DeviceUpdate, IsTheCpus) {
  Make(GetParam());
  std::vector<float> expected = weights_;
  for (uint32_t c = 0; c < layout_.chunks.size(); ++c) ASSERT_TRUE(Update(c, SumsOf(c)).ok());
  for (uint32_t c = 0; c < layout_.chunks.size(); ++c) {
    const std::vector<uint8_t> sums = SumsOf(c);
    std::span<const uint8_t> rest = sums;
    for (const kernels::Part& part : layout_.chunks[c]) {
      const size_t size = *ternary_->SumPart(rest, SegmentOf(part), kWorkers);
      std::vector<float> mean(part.count);
      ASSERT_TRUE(ternary_
                      ->Decode(rest.first(size), SegmentOf(part), kWorkers, kPrepared.scaler, 0,
                               part.count, mean.data())
                      .ok());
      optimizer_->Update(expected.data() + part.begin, mean.data(), part.begin, part.count, kStep,
                         kDecay);
      rest = rest.subspan(size);
    }
  }
  std::vector<std::vector<float>> slots;
  for (const auto& slot : optimizer_->Slots())
    slots.emplace_back(slot.values.begin(), slot.values.end());
  ASSERT_TRUE(model_->CheckSums().ok());
  ASSERT_TRUE(model_->Bring(Host()).ok());
  EXPECT_EQ(weights_, expected);
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto brought = optimizer_->Slots()[i].values;
    EXPECT_EQ(std::vector<float>(brought.begin(), brought.end()), slots[i]) << "slot " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, DeviceUpdate,
                         testing::Values("sgd", "momentum", "nesterov", "adam"));

TEST_F(DeviceModelTest, SumsOfAnotherSizeAreRefused) {
  Make("sgd");
  std::vector<uint8_t> sums = SumsOf(1);
  sums.pop_back();
  const Status updated = Update(1, sums);
  EXPECT_EQ(updated.code(), Code::kMismatch);
  EXPECT_THAT(updated.message(), testing::HasSubstr("the sums of chunk 1 are"));
}

// Three planes hold -4 to 3, and two workers make -2 to 2.
TEST_F(DeviceModelTest, SumsThatCannotBeAreFound) {
  Make("sgd");
  std::vector<uint8_t> sums(SumsOf(0).size());
  sums[0] = 1;                // 1 in the first plane ...
  sums[sums.size() / 3] = 1;  // ... and in the second: 3
  ASSERT_TRUE(Update(0, sums).ok());
  EXPECT_EQ(model_->CheckSums().code(), Code::kMismatch);
}

TEST_F(DeviceModelTest, DecayIsAdded) {
  Make("sgd");
  ASSERT_TRUE(model_->AddDecay(2000, 500, 0.5f).ok());
  const float* g = static_cast<const cuda::CudaModel&>(*model_).gradients();
  EXPECT_EQ(g[1999], gradients_[1999]);
  EXPECT_EQ(g[2000], gradients_[2000] + 0.5f * weights_[2000]);
  EXPECT_EQ(g[2500], gradients_[2500]);
}

}  // namespace
}  // namespace tern::engine
