// The model that stays on a GPU: its codes and updates equal those of the CPU's codec and
// optimizer.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "common/update/clip.h"
#include "common/update/optimizer.h"
#include "kernels/codes/philox.h"
#include "kernels/codes/sparse_math.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/device/tiling.h"
#include "kernels/update/optimizer.h"
#include "kernels/update/optimizer_math.h"
#include "worker/device/cuda_model.h"
#include "worker/device/device_model.h"

namespace tern::device {
namespace {

constexpr uint64_t kElements = 12000;
constexpr int kWorkers = 2;

// Two tensors, a bucket each. The second tensor is cut into two chunks, the first of which also has
// the end of the first tensor. Cuts are where columns and buckets of the tested codecs end.
DeviceModel::Layout TwoTensors() {
  DeviceModel::Layout layout;
  layout.elements = kElements;
  layout.workers = kWorkers;
  layout.columns = {10, 20};
  layout.buckets = {{{.begin = 0, .count = 2000, .first = 0, .tensor = 0}},
                    {{.begin = 2000, .count = 10000, .first = 0, .tensor = 1}}};
  layout.chunks = {{{.begin = 0, .count = 1000, .first = 0, .tensor = 0}},
                   {{.begin = 1000, .count = 1000, .first = 1000, .tensor = 0},
                    {.begin = 2000, .count = 4100, .first = 0, .tensor = 1}},
                   {{.begin = 6100, .count = 5900, .first = 4100, .tensor = 1}}};
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

std::vector<uint8_t> BytesOf(const Result<Bytes>& bytes) {
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  if (!bytes.ok()) return {};
  return {bytes->span().begin(), bytes->span().end()};
}

// The CPU's codes of gradients, round by round.
class CpuCoder {
 public:
  explicit CpuCoder(const DeviceModel::Layout& layout) : layout_(layout) {
    for (const auto& bucket : layout.buckets) {
      memories_.push_back(layout.codec->NewMemory(bucket[0].count));
      prepared_.emplace_back();
    }
  }
  // Encodes the chunks.
  std::vector<std::vector<uint8_t>> Code(const std::vector<float>& gradients,
                                         kernels::NoiseKey noise) {
    std::vector<float> v = gradients;
    for (uint32_t t = 0; t < memories_.size(); ++t) {
      const kernels::Part& part = layout_.buckets[t][0];
      const std::span<float> here{v.data() + part.begin, part.count};
      if (memories_[t] != nullptr) memories_[t]->Compensate(0, here, here);
      noise.tensor = t;
      prepared_[t] =
          layout_.codec->Prepare(kernels::ComputeStats(here.data(), here.size()), here, noise);
    }
    std::vector<std::vector<uint8_t>> codes;
    for (const auto& chunk : layout_.chunks) {
      codes.emplace_back();
      for (const kernels::Part& part : chunk)
        Encode(part, {v.data() + part.begin, part.count}, noise, &codes.back());
    }
    return codes;
  }
  const codec::Prepared& prepared(uint32_t tensor) const { return prepared_[tensor]; }
  // The codecs' memories: by name of the array, the values of all tensors in order.
  std::map<std::string, std::vector<float>> CodecMemories() {
    std::map<std::string, std::vector<float>> kept;
    for (const auto& memory : memories_) {
      if (memory == nullptr) continue;
      SavedState state;
      memory->AddState(&state);
      for (const SavedState::Array& array : state.arrays)
        kept[array.name].insert(kept[array.name].end(), array.values.begin(), array.values.end());
    }
    return kept;
  }

 private:
  void Encode(const kernels::Part& part, std::span<const float> v, const kernels::NoiseKey& noise,
              std::vector<uint8_t>* codes) {
    const codec::Segment segment{part.tensor, part.first, part.count, layout_.columns[part.tensor]};
    const size_t before = codes->size();
    layout_.codec->Encode(v.data(), segment, prepared_[part.tensor], noise, codes);
    codec::Memory* memory = memories_[part.tensor].get();
    if (memory == nullptr) return;
    std::vector<float> sent(part.count);
    ASSERT_TRUE(
        layout_.codec->DecodeSingleCode(std::span(*codes).subspan(before), segment, sent.data())
            .ok());
    memory->Update(part.first, v, sent);
  }

  const DeviceModel::Layout& layout_;
  std::vector<std::unique_ptr<codec::Memory>> memories_;  // what the codec keeps of each tensor
  std::vector<codec::Prepared> prepared_;
};

struct CodecCase {
  const char* name;
  const char* codec = "ternary";
  codec::Options options = {};
};

void PrintTo(const CodecCase& codec_case, std::ostream* out) { *out << codec_case.name; }

class DeviceModelTest : public testing::Test {
 protected:
  void Make(const std::string& optimizer, const CodecCase& codec_case = {"ternary"},
            bool average = false) {
    pb::Optimizer def;
    def.set_name(optimizer);
    optimizer_ = std::move(*update::MakeOptimizer(def, kElements));
    codec_ = std::move(*codec::MakeCodec(codec_case.codec, codec_case.options));
    layout_ = TwoTensors();
    layout_.state_arrays = static_cast<uint32_t>(optimizer_->StateArrays().size());
    layout_.average = average;
    layout_.codec = codec_.get();
    layout_.options = codec_case.options;
    ASSERT_TRUE(codec::CanEncodeOnDevice(*codec_));
    auto made = DeviceModel::Make(layout_);
    ASSERT_TRUE(made.ok()) << made.status().message();
    model_ = std::move(*made);
    PutGradients(gradients_);
    ASSERT_TRUE(model_->CopyToDevice(Host()).ok());
  }
  void PutGradients(const std::vector<float>& gradients) {
    const auto& device = static_cast<const CudaModel&>(*model_);
    ASSERT_TRUE(device.stream()
                    ->CopyIn(device.gradients(), gradients.data(), kElements * sizeof(float))
                    .ok());
    ASSERT_TRUE(device.stream()->Wait().ok());
  }
  // The gradients after all launched work.
  std::vector<float> Gradients() {
    EXPECT_TRUE(model_->codes().StatsOf(0, 0).ok());  // waits for the coder's stream
    const auto& device = static_cast<const CudaModel&>(*model_);
    std::vector<float> gradients(kElements);
    EXPECT_TRUE(device.stream()
                    ->CopyOut(gradients.data(), device.gradients(), kElements * sizeof(float))
                    .ok());
    EXPECT_TRUE(device.stream()->Wait().ok());
    return gradients;
  }
  DeviceModel::Host Host() {
    DeviceModel::Host host;
    host.weights = weights_.data();
    for (const auto& slot : optimizer_->StateArrays())
      host.state_arrays.push_back(slot.values.data());
    host.average = average_.data();
    return host;
  }
  codec::Segment SegmentOf(const kernels::Part& part) const {
    return {part.tensor, part.first, part.count, layout_.columns[part.tensor]};
  }
  void Prepare(const kernels::NoiseKey& noise) {
    for (uint32_t b = 0; b < layout_.buckets.size(); ++b)
      ASSERT_TRUE(model_->codes().Prepare(b, noise).ok());
  }
  Result<Bytes> Encode(uint32_t chunk, const CpuCoder& cpu, const kernels::NoiseKey& noise) {
    std::vector<kernels::TernaryScale> scales;
    for (const kernels::Part& part : layout_.chunks[chunk])
      scales.push_back({cpu.prepared(part.tensor).scaler, cpu.prepared(part.tensor).clip});
    return model_->codes().Encode(chunk, scales, noise);
  }
  // The sums of a chunk over two workers, one with these gradients and one with others. Scalers are
  // those of kPrepared.
  std::vector<uint8_t> SumsOf(uint32_t chunk) {
    std::vector<uint8_t> sums;
    for (const kernels::Part& part : layout_.chunks[chunk]) {
      const auto sum = codec_->NewAccumulator(SegmentOf(part), kWorkers);
      for (uint16_t rank = 0; rank < kWorkers; ++rank) {
        const std::vector<float> g = Numbers(2 + rank);
        std::vector<uint8_t> code;
        codec_->Encode(g.data() + part.begin, SegmentOf(part), kPrepared,
                       {.seed = 1, .rank = rank, .round = 1, .tensor = part.tensor}, &code);
        EXPECT_TRUE(sum->Add(rank, code).ok());
      }
      sum->EncodeSum(&sums);
    }
    return sums;
  }
  // The sums' means, decoded by the codec.
  std::vector<float> MeansOf(uint32_t chunk, std::span<const uint8_t> sums) {
    std::vector<float> means;
    for (const kernels::Part& part : layout_.chunks[chunk]) {
      const size_t size = *codec_->SumSize(sums, SegmentOf(part), kWorkers);
      std::vector<float> mean(part.count);
      EXPECT_TRUE(codec_
                      ->Decode(sums.first(size), SegmentOf(part), kWorkers, kPrepared.scaler, 0,
                               part.count, mean.data())
                      .ok());
      means.insert(means.end(), mean.begin(), mean.end());
      sums = sums.subspan(size);
    }
    return means;
  }
  Status Update(uint32_t chunk, std::span<const uint8_t> sums) {
    const size_t segments = layout_.chunks[chunk].size();
    const std::vector<float> scalers(segments, kPrepared.scaler);
    return model_->Update(chunk, {sums, kWorkers, scalers}, optimizer_->CoefficientsOf(kStep),
                          std::vector<kernels::TensorRates>(segments, {.decay = kDecay}));
  }
  void ExpectTheCpusStep() {
    std::vector<float> expected = weights_;
    for (uint32_t c = 0; c < layout_.chunks.size(); ++c) {
      const std::vector<uint8_t> sums = SumsOf(c);
      const std::vector<float> means = MeansOf(c, sums);
      const uint64_t begin = layout_.chunks[c][0].begin;
      optimizer_->Update(expected.data() + begin, means.data(), begin, means.size(), kStep, kDecay);
      ASSERT_TRUE(Update(c, sums).ok());
    }
    ExpectOnDevice(expected);
  }
  // Compares the device's weights and state arrays with the expected ones.
  void ExpectOnDevice(const std::vector<float>& expected) {
    std::vector<std::vector<float>> slots;
    for (const auto& slot : optimizer_->StateArrays())
      slots.emplace_back(slot.values.begin(), slot.values.end());
    ASSERT_TRUE(model_->CheckSums().ok());
    ASSERT_TRUE(model_->CopyToHost(Host()).ok());
    EXPECT_EQ(weights_, expected);
    for (size_t i = 0; i < slots.size(); ++i) {
      const auto brought = optimizer_->StateArrays()[i].values;
      EXPECT_EQ(std::vector<float>(brought.begin(), brought.end()), slots[i]) << "slot " << i;
    }
  }

  static constexpr codec::Prepared kPrepared{
      .scaler = 0.8f, .clip = 0.7f, .low = -0.5f, .high = 0.5f};
  static constexpr update::Step kStep{0.05, 3};
  static constexpr float kDecay = 0.01f;
  std::unique_ptr<codec::Codec> codec_;
  std::unique_ptr<update::Optimizer> optimizer_;
  DeviceModel::Layout layout_;
  std::vector<float> weights_ = Numbers(1), gradients_ = Numbers(2), average_ = Numbers(5);
  std::unique_ptr<DeviceModel> model_;
};

TEST_F(DeviceModelTest, StatisticsMatchCpu) {
  Make("sgd");
  for (uint32_t b = 0; b < layout_.buckets.size(); ++b) {
    const auto stats = model_->codes().StatsOf(0, b);
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

// A socket may still be sending an earlier code.
TEST_F(DeviceModelTest, CodesStayUnchangedWhileReferenced) {
  Make("sgd");
  const kernels::TernaryScale scale{0.5f, 0.6f};
  const auto first = model_->codes().Encode(0, {&scale, 1}, {.seed = 1});
  ASSERT_TRUE(first.ok());
  const std::vector<uint8_t> before(first->span().begin(), first->span().end());
  const uint8_t* again = nullptr;
  for (uint64_t round = 1; round < 4; ++round) {
    const auto other = model_->codes().Encode(0, {&scale, 1}, {.seed = 1, .round = round});
    ASSERT_TRUE(other.ok());
    EXPECT_NE(other->data(), first->data());
    EXPECT_TRUE(again == nullptr || other->data() == again) << "memory is used again";
    again = other->data();
  }
  EXPECT_EQ(before, std::vector<uint8_t>(first->span().begin(), first->span().end()));
}

class DeviceCodecs : public DeviceModelTest, public testing::WithParamInterface<CodecCase> {};

TEST_P(DeviceCodecs, CodesAndMemoryMatchCpu) {
  Make("sgd", GetParam());
  CpuCoder cpu(layout_);
  for (uint64_t round = 0; round < 4; ++round) {
    const std::vector<float> gradients = Numbers(static_cast<uint32_t>(20 + round));
    const kernels::NoiseKey noise{.seed = 9, .rank = 1, .round = round};
    const auto expected = cpu.Code(gradients, noise);
    PutGradients(gradients);
    Prepare(noise);
    for (uint32_t c = 0; c < layout_.chunks.size(); ++c)
      EXPECT_EQ(BytesOf(Encode(c, cpu, noise)), expected[c])
          << "round " << round << ", chunk " << c;
  }
  const auto kept = cpu.CodecMemories();
  std::vector<std::vector<float>> brought(kept.size(), std::vector<float>(kElements));
  std::vector<std::span<float>> spans(brought.begin(), brought.end());
  ASSERT_TRUE(model_->codes().CopyMemoryToHost(0, spans).ok());
  size_t i = 0;
  for (const auto& [name, values] : kept) EXPECT_EQ(brought[i++], values) << name;
}

TEST_P(DeviceCodecs, ContinueFromSavedMemory) {
  Make("sgd", GetParam());
  CpuCoder cpu(layout_);
  const kernels::NoiseKey noise{.seed = 9, .rank = 1, .round = 1};
  cpu.Code(Numbers(30), noise);
  auto kept = cpu.CodecMemories();
  std::vector<std::span<float>> spans;
  for (auto& [name, values] : kept) spans.emplace_back(values);
  std::vector<std::span<float>> first, second;
  for (const std::span<float> all : spans) {
    first.push_back(all.first(2000));
    second.push_back(all.subspan(2000));
  }
  ASSERT_TRUE(model_->codes().CopyMemoryToDevice(0, first).ok());
  ASSERT_TRUE(model_->codes().CopyMemoryToDevice(2000, second).ok());
  const auto expected = cpu.Code(gradients_, noise);
  Prepare(noise);
  for (uint32_t c = 0; c < layout_.chunks.size(); ++c)
    EXPECT_EQ(BytesOf(Encode(c, cpu, noise)), expected[c]) << "chunk " << c;

  ASSERT_TRUE(model_->codes().ResetMemory().ok());
  ASSERT_TRUE(model_->codes().CopyMemoryToHost(0, spans).ok());
  for (const auto& [name, values] : kept) EXPECT_EQ(values, std::vector<float>(kElements)) << name;
}

TEST_P(DeviceCodecs, UpdatesFromSumsMatchCpu) {
  Make("momentum", GetParam());
  ExpectTheCpusStep();
}

TEST_P(DeviceCodecs, RefuseSumsOfAnotherSize) {
  Make("sgd", GetParam());
  std::vector<uint8_t> sums = SumsOf(1);
  sums.pop_back();
  EXPECT_EQ(Update(1, sums).code(), Code::kMismatch);
  sums.resize(sums.size() + 2);
  EXPECT_EQ(Update(1, sums).code(), Code::kMismatch);
}

// A value that is not finite is found in the tensors' statistics, or, if a codec needs no
// statistics, while its tensor is encoded.
TEST_P(DeviceCodecs, ReportNonFiniteValues) {
  Make("sgd", GetParam());
  std::vector<float> gradients = gradients_;
  gradients[7000] = std::numeric_limits<float>::quiet_NaN();
  PutGradients(gradients);
  const auto prepared = model_->codes().Prepare(1, {});
  ASSERT_TRUE(prepared.ok());
  if (prepared->empty()) {
    EXPECT_EQ(model_->codes().Encode(2, {}, {}).status().code(), Code::kDiverged);
    EXPECT_TRUE(model_->codes().Encode(0, {}, {}).ok()) << "it is not counted again";
  }
  const auto stats = model_->codes().StatsOf(0, 1);
  ASSERT_TRUE(stats.ok());
  EXPECT_FALSE(stats->front().finite);
}

using codec::Options;

Options OptionsWith(const Options::Qsgd& qsgd) {
  Options options;
  options.qsgd = qsgd;
  return options;
}
Options WithOneBitBuckets(uint64_t elements) {
  Options options;
  options.keys.mutable_onebit()->set_bucket_elements(elements);
  return options;
}
Options OptionsWith(const Options::TopK& topk) {
  Options options;
  options.topk = topk;
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Each, DeviceCodecs,
    testing::Values(CodecCase{"ternary"}, CodecCase{"fp32", "fp32"}, CodecCase{"fp16", "fp16"},
                    CodecCase{"bf16", "bf16"},
                    CodecCase{"qsgd", "qsgd", OptionsWith(Options::Qsgd{.bucket = 100})},
                    CodecCase{"pqasgd", "qsgd",
                              OptionsWith(Options::Qsgd{.bucket = 100,
                                                        .norm = Options::Qsgd::Norm::kTwo,
                                                        .levels = Options::Qsgd::Levels::kSqrtN})},
                    CodecCase{"onebit", "onebit"},
                    CodecCase{"onebit_buckets", "onebit", WithOneBitBuckets(100)},
                    CodecCase{"topk", "topk"},
                    CodecCase{"dgc", "topk",
                              OptionsWith(Options::TopK{.ratio = 0.01,
                                                        .sample_ratio = 0.05,
                                                        .momentum = 0.9,
                                                        .nesterov = true,
                                                        .clip_norm = 5,
                                                        .warmup_rounds = 3})},
                    CodecCase{"dgc_adapts", "topk",
                              OptionsWith(Options::TopK{.ratio = 0.02,
                                                        .sample_ratio = 0.01,
                                                        .resample = false,
                                                        .momentum = 0.5,
                                                        .masking = false})},
                    CodecCase{"all", "topk", OptionsWith(Options::TopK{.ratio = 1})}),
    [](const auto& info) { return std::string(info.param.name); });

class DeviceUpdate : public DeviceModelTest, public testing::WithParamInterface<const char*> {};

TEST_P(DeviceUpdate, MatchesCpu) {
  Make(GetParam());
  ExpectTheCpusStep();
}

INSTANTIATE_TEST_SUITE_P(Rules, DeviceUpdate,
                         testing::Values("sgd", "momentum", "nesterov", "adam"));

// LARS needs norms of whole tensors. No worker has sent anything for the last chunk of the second
// tensor.
TEST_F(DeviceModelTest, WholeTensorOptimizersMatchCpu) {
  Make("lars");
  std::vector<float> expected = weights_, means(kElements);
  for (uint32_t c = 0; c < 2; ++c) {
    const std::vector<float> chunk_means = MeansOf(c, SumsOf(c));
    std::copy(chunk_means.begin(), chunk_means.end(),
              means.begin() + static_cast<std::ptrdiff_t>(layout_.chunks[c][0].begin));
  }
  for (int again = 0; again < 2; ++again) {
    for (uint32_t b = 0; b < 2; ++b) ASSERT_TRUE(model_->ClearMeans(b).ok());
    for (uint32_t c = 0; c < 2; ++c) {
      const std::vector<float> scalers(layout_.chunks[c].size(), kPrepared.scaler);
      const std::vector<uint8_t> sums = SumsOf(c);
      ASSERT_TRUE(model_->ReadMeans(c, {sums, kWorkers, scalers}).ok());
    }
    for (uint32_t b = 0; b < 2; ++b) {
      const auto squares = model_->SquaresOf(b);
      ASSERT_TRUE(squares.ok());
      const kernels::TensorRates rates{
          kDecay, optimizer_->RateOf(squares->front().weights, squares->front().means, kDecay)};
      ASSERT_TRUE(model_->UpdateBucket(b, optimizer_->CoefficientsOf(kStep), {&rates, 1}).ok());
      const kernels::Part& part = layout_.buckets[b][0];
      optimizer_->Update(expected.data() + part.begin, means.data() + part.begin, part.begin,
                         part.count, kStep, kDecay);
    }
  }
  ExpectOnDevice(expected);
}

// Sums are sent as three bit planes, which can hold -4 to 3; but sums of two workers' ternary codes
// are only -2 to 2.
TEST_F(DeviceModelTest, InvalidSumsAreDetected) {
  Make("sgd");
  std::vector<uint8_t> sums(SumsOf(0).size());
  sums[0] = 1;                // 1 in the first plane ...
  sums[sums.size() / 3] = 1;  // ... and in the second: 3
  ASSERT_TRUE(Update(0, sums).ok());
  EXPECT_EQ(model_->CheckSums().code(), Code::kMismatch);
}

// A sparse code that contains nearly all elements with their positions, although sending all
// elements without positions would be smaller.
TEST_F(DeviceModelTest, TooLargeSumsAreRefused) {
  Make("sgd", {"topk", "topk"});
  const uint16_t sent[] = {4095, 1803};  // of 4096 and 1804 elements
  std::vector<uint8_t> sums;
  size_t size = sizeof sent;
  for (const uint16_t k : sent) {
    sums.push_back(static_cast<uint8_t>(k));
    sums.push_back(static_cast<uint8_t>(k >> 8));
    size += kernels::SparseBodySize(k, k + 1u);
  }
  sums.resize(size);
  ASSERT_GT(size, codec_->MaxSumSize(SegmentOf(layout_.chunks[2][0]), kWorkers));
  EXPECT_EQ(Update(2, sums).code(), Code::kMismatch);
}

TEST_F(DeviceModelTest, NonFiniteMeansAreDetected) {
  for (const char* name : {"fp32", "fp16", "bf16"}) {
    Make("sgd", {name, name});
    std::vector<uint8_t> sums = SumsOf(0);
    std::fill(sums.end() - 4, sums.end(), 0xFF);
    ASSERT_TRUE(Update(0, sums).ok());
    EXPECT_EQ(model_->CheckSums().code(), Code::kMismatch) << name;
  }
}

TEST_F(DeviceModelTest, AddsDecay) {
  Make("sgd");
  ASSERT_TRUE(model_->AddDecay(2000, 500, 0.5f).ok());
  const std::vector<float> g = Gradients();
  EXPECT_EQ(g[1999], gradients_[1999]);
  EXPECT_EQ(g[2000], gradients_[2000] + 0.5f * weights_[2000]);
  EXPECT_EQ(g[2500], gradients_[2500]);
}

TEST_F(DeviceModelTest, ClippingMatchesCpu) {
  Make("sgd");
  const auto squares = model_->SquaresOfGradients();
  ASSERT_TRUE(squares.ok());
  EXPECT_EQ(std::sqrt(*squares), update::Norm(gradients_.data(), kElements));
  ASSERT_TRUE(model_->ScaleGradients(0.3f).ok());
  std::vector<float> expected = gradients_;
  kernels::Scale(expected.data(), kElements, 0.3f);
  EXPECT_EQ(Gradients(), expected);
}

TEST_F(DeviceModelTest, CountsAndCopiesGradients) {
  Make("sgd");
  const float least = std::abs(gradients_[2100]);
  const auto count = model_->codes().CountAtLeast(0, 1, std::vector<float>{least});
  ASSERT_TRUE(count.ok());
  const auto expected = std::count_if(gradients_.begin() + 2000, gradients_.end(),
                                      [&](float g) { return std::abs(g) >= least; });
  EXPECT_EQ(*count, static_cast<uint64_t>(expected));
  EXPECT_EQ(*model_->codes().CountAtLeast(0, 1, std::vector<float>{-1}), 0u);
  std::vector<float> some(50);
  ASSERT_TRUE(model_->codes().CopyGradientsToHost(0, 1990, some).ok());
  EXPECT_EQ(some, std::vector<float>(gradients_.begin() + 1990, gradients_.begin() + 2040));
}

TEST_F(DeviceModelTest, AverageMatchesCpu) {
  Make("sgd", {"ternary"}, /*average=*/true);
  std::vector<float> expected = average_;
  kernels::EmaUpdate(expected.data() + 100, weights_.data() + 100, 5000, 0.1f);
  ASSERT_TRUE(model_->Average(100, 5000, 0.1f).ok());
  ASSERT_TRUE(model_->CopyToHost(Host()).ok());
  EXPECT_EQ(average_, expected);
}

TEST(DeviceModelCodes, MatchTheTableOfCodecs) {
  for (const std::string& name : codec::CodecNames()) {
    const auto codec = std::move(*codec::MakeCodec(name, {}));
    DeviceModel::Layout layout = TwoTensors();
    layout.codec = codec.get();
    EXPECT_EQ(DeviceModel::Make(layout).ok(), codec::CanEncodeOnDevice(*codec)) << name;
  }
  Options fed;
  fed.error_feedback = true;
  EXPECT_FALSE(codec::CanEncodeOnDevice(**codec::MakeCodec("fp16", fed)));
}

}  // namespace
}  // namespace tern::device
