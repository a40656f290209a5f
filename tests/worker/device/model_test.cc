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
#include "tests/worker/device/cpu_coder.h"
#include "worker/device/cuda_model.h"
#include "worker/device/device_model.h"

namespace tern::device {
namespace {

constexpr uint64_t kElements = 12000;
constexpr int kWorkerCount = 2;
constexpr auto kNow = DeviceModel::SumCheck::kNow, kLater = DeviceModel::SumCheck::kLater;

// Two tensors; each is a bucket (a group of elements prepared together). There are three chunks
// (groups encoded together): the second has the end of the first tensor and the beginning of
// the second. With a rotation, chunks begin and end between its blocks, of at most 1024 elements.
DeviceModel::Layout LayoutOfTwoTensors(bool rotates) {
  const uint64_t first_cut = rotates ? 1024 : 1000, second_cut = rotates ? 4096 : 4100;
  DeviceModel::Layout layout;
  layout.elements = kElements;
  layout.workers = kWorkerCount;
  layout.columns = {10, 20};
  layout.buckets = {{{.begin = 0, .count = 2000, .first = 0, .tensor = 0}},
                    {{.begin = 2000, .count = 10000, .first = 0, .tensor = 1}}};
  layout.chunks = {
      {{.begin = 0, .count = first_cut, .first = 0, .tensor = 0}},
      {{.begin = first_cut, .count = 2000 - first_cut, .first = first_cut, .tensor = 0},
       {.begin = 2000, .count = second_cut, .first = 0, .tensor = 1}},
      {{.begin = 2000 + second_cut,
        .count = 10000 - second_cut,
        .first = second_cut,
        .tensor = 1}}};
  return layout;
}

std::vector<float> RandomValues(uint32_t set_number) {
  std::vector<float> numbers(kElements);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint32_t draw = kernels::Draw32({.seed = 3, .tensor = set_number}, i);
    numbers[i] = (static_cast<float>(draw) * 0x1p-31f - 1) * (i % 7 == 0 ? 1.0f : 0.1f);
  }
  return numbers;
}

std::vector<uint8_t> BytesOrFail(const Result<Bytes>& bytes) {
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  if (!bytes.ok()) return {};
  return {bytes->span().begin(), bytes->span().end()};
}

struct CodecCase {
  const char* name;
  const char* codec_name = "ternary";
  codec::Options options = {};
};

void PrintTo(const CodecCase& codec_case, std::ostream* out) { *out << codec_case.name; }

class DeviceModelTest : public testing::Test {
 protected:
  void MakeModel(const std::string& optimizer, const CodecCase& codec_case = {"ternary"},
                 bool has_average = false) {
    pb::Optimizer optimizer_def;
    optimizer_def.set_name(optimizer);
    optimizer_ = std::move(*update::MakeOptimizer(optimizer_def, kElements));
    codec_ = std::move(*codec::MakeCodec(codec_case.codec_name, codec_case.options));
    layout_ = LayoutOfTwoTensors(codec_->rotates());
    layout_.state_arrays = static_cast<uint32_t>(optimizer_->StateArrays().size());
    layout_.has_average = has_average;
    layout_.codec = codec_.get();
    layout_.options = codec_case.options;
    ASSERT_TRUE(codec::CanEncodeOnDevice(*codec_));
    auto model = DeviceModel::Make(layout_);
    ASSERT_TRUE(model.ok()) << model.status().message();
    model_ = std::move(*model);
    CopyGradientsToDevice(gradients_);
    ASSERT_TRUE(model_->CopyToDevice(HostArrays()).ok());
  }
  void CopyGradientsToDevice(const std::vector<float>& gradients) {
    const auto& device = static_cast<const CudaModel&>(*model_);
    ASSERT_TRUE(device.stream()
                    ->CopyIn(device.gradients(), gradients.data(), kElements * sizeof(float))
                    .ok());
    ASSERT_TRUE(device.stream()->Wait().ok());
  }
  // The gradients on the device, once all work launched before this call is done.
  std::vector<float> GradientsOnDevice() {
    EXPECT_TRUE(model_->codes().StatsOfCodedValues(0, 0).ok());  // waits for the coder's stream
    const auto& device = static_cast<const CudaModel&>(*model_);
    std::vector<float> gradients(kElements);
    EXPECT_TRUE(device.stream()
                    ->CopyOut(gradients.data(), device.gradients(), kElements * sizeof(float))
                    .ok());
    EXPECT_TRUE(device.stream()->Wait().ok());
    return gradients;
  }
  DeviceModel::HostCopies HostArrays() {
    DeviceModel::HostCopies arrays;
    arrays.weights = weights_.data();
    for (const auto& state_array : optimizer_->StateArrays())
      arrays.state_arrays.push_back(state_array.values.data());
    arrays.average = average_.data();
    return arrays;
  }
  codec::Segment SegmentOf(const kernels::Part& part) const {
    return {part.tensor, part.first, part.count, layout_.columns[part.tensor]};
  }
  // Computes the statistics. They give the scalers and clip levels of the CPU's coder, if the codec
  // has such that the workers share.
  void PrepareBuckets(const CpuCoder& cpu, const kernels::NoiseKey& noise) {
    for (uint32_t b = 0; b < layout_.buckets.size(); ++b) {
      const auto stats = model_->codes().Prepare(b, noise);
      ASSERT_TRUE(stats.ok());
      for (size_t i = 0; codec_->shares_scaler() && i < stats->size(); ++i) {
        const codec::EncodeParams params = codec_->Prepare((*stats)[i], {}, noise),
                                  &expected = cpu.EncodeParamsOf(layout_.buckets[b][i].tensor);
        EXPECT_EQ(params.scaler, expected.scaler) << "bucket " << b;
        EXPECT_EQ(params.clip, expected.clip) << "bucket " << b;
      }
    }
  }
  Result<Bytes> EncodeChunk(uint32_t chunk, const CpuCoder& cpu, const kernels::NoiseKey& noise) {
    std::vector<kernels::TernaryScale> scales;
    for (const kernels::Part& part : layout_.chunks[chunk])
      scales.push_back(
          {cpu.EncodeParamsOf(part.tensor).scaler, cpu.EncodeParamsOf(part.tensor).clip});
    return model_->codes().Encode(chunk, scales, noise);
  }
  // The encoded sums of a chunk over two workers. The gradients of the workers are RandomValues(2)
  // and RandomValues(3), encoded with kEncodeParams.
  std::vector<uint8_t> EncodedSumsOf(uint32_t chunk) {
    std::vector<uint8_t> sums;
    for (const kernels::Part& part : layout_.chunks[chunk]) {
      const auto accumulator = codec_->NewAccumulator(SegmentOf(part), kWorkerCount);
      for (uint16_t rank = 0; rank < kWorkerCount; ++rank) {
        const std::vector<float> gradients = RandomValues(2 + rank);
        std::vector<uint8_t> code;
        codec_->Encode(gradients.data() + part.begin, SegmentOf(part), kEncodeParams,
                       {.seed = 1, .rank = rank, .round = 1, .tensor = part.tensor}, &code);
        EXPECT_TRUE(accumulator->Add(rank, code).ok());
      }
      accumulator->EncodeSum(&sums);
    }
    return sums;
  }
  // Decodes the means over the workers from the encoded sums of a chunk.
  std::vector<float> DecodedMeansOf(uint32_t chunk, std::span<const uint8_t> sums) {
    std::vector<float> means;
    for (const kernels::Part& part : layout_.chunks[chunk]) {
      const size_t sum_bytes = *codec_->SumSize(sums, SegmentOf(part), kWorkerCount);
      std::vector<float> mean(part.count);
      EXPECT_TRUE(codec_
                      ->Decode(sums.first(sum_bytes), SegmentOf(part), kWorkerCount,
                               kEncodeParams.scaler, 0, part.count, mean.data())
                      .ok());
      means.insert(means.end(), mean.begin(), mean.end());
      sums = sums.subspan(sum_bytes);
    }
    return means;
  }
  Status UpdateChunk(uint32_t chunk, std::span<const uint8_t> sums) {
    const size_t num_segments = layout_.chunks[chunk].size();
    const std::vector<float> scalers(num_segments, kEncodeParams.scaler);
    return model_->Update(chunk, {sums, kWorkerCount, scalers},
                          optimizer_->CoefficientsOf(kUpdateStep),
                          std::vector<kernels::TensorRates>(num_segments, kRates));
  }
  // Updates a chunk's part of `weights`, and the state arrays of optimizer_, on the CPU.
  void UpdateChunkOnCpu(uint32_t chunk, std::span<const uint8_t> sums,
                        std::vector<float>* weights) {
    const std::vector<float> means = DecodedMeansOf(chunk, sums);
    const uint64_t begin = layout_.chunks[chunk][0].begin;
    optimizer_->Update(weights->data() + begin, means.data(), begin, means.size(), kUpdateStep,
                       kRates);
  }
  void ExpectStepEqualsCpu() {
    std::vector<float> expected = weights_;
    for (uint32_t c = 0; c < layout_.chunks.size(); ++c) {
      const std::vector<uint8_t> sums = EncodedSumsOf(c);
      UpdateChunkOnCpu(c, sums, &expected);
      ASSERT_TRUE(UpdateChunk(c, sums).ok());
    }
    ExpectStateOnDevice(expected);
  }
  // Expects the weights `expected` on the device, and the state arrays of optimizer_.
  void ExpectStateOnDevice(const std::vector<float>& expected) {
    std::vector<std::vector<float>> expected_arrays;
    for (const auto& state_array : optimizer_->StateArrays())
      expected_arrays.emplace_back(state_array.values.begin(), state_array.values.end());
    ASSERT_TRUE(model_->CheckSums(kNow).ok());
    ASSERT_TRUE(model_->CopyToHost(HostArrays()).ok());
    EXPECT_EQ(weights_, expected);
    for (size_t i = 0; i < expected_arrays.size(); ++i) {
      const auto device_array = optimizer_->StateArrays()[i].values;
      EXPECT_EQ(std::vector<float>(device_array.begin(), device_array.end()), expected_arrays[i])
          << "slot " << i;
    }
  }

  static constexpr codec::EncodeParams kEncodeParams{
      .scaler = 0.8f, .clip = 0.7f, .low = -0.5f, .high = 0.5f};
  static constexpr update::Step kUpdateStep{0.05, 3};
  static constexpr float kDecayRate = 0.01f;
  static constexpr kernels::TensorRates kRates{.decay = kDecayRate, .rate_times = 1.7f};
  std::unique_ptr<codec::Codec> codec_;
  std::unique_ptr<update::Optimizer> optimizer_;
  DeviceModel::Layout layout_;
  std::vector<float> weights_ = RandomValues(1), gradients_ = RandomValues(2),
                     average_ = RandomValues(5);
  std::unique_ptr<DeviceModel> model_;
};

TEST_F(DeviceModelTest, StatisticsMatchCpu) {
  MakeModel("sgd");
  for (uint32_t b = 0; b < layout_.buckets.size(); ++b) {
    const auto stats = model_->codes().StatsOfCodedValues(0, b);
    ASSERT_TRUE(stats.ok());
    ASSERT_EQ(stats->size(), layout_.buckets[b].size());
    for (size_t i = 0; i < stats->size(); ++i) {
      const kernels::Part& part = layout_.buckets[b][i];
      const kernels::Stats cpu_stats =
          kernels::ComputeStats(gradients_.data() + part.begin, part.count);
      EXPECT_EQ((*stats)[i].sum, cpu_stats.sum);
      EXPECT_EQ((*stats)[i].sum_squares, cpu_stats.sum_squares);
      EXPECT_EQ((*stats)[i].max_abs, cpu_stats.max_abs);
      EXPECT_TRUE((*stats)[i].is_finite);
    }
  }
}

// A socket may still be sending an earlier code, so new codes must not reuse its memory.
TEST_F(DeviceModelTest, CodesStayUnchangedWhileReferenced) {
  MakeModel("sgd");
  const kernels::TernaryScale scale{0.5f, 0.6f};
  const auto first_code = model_->codes().Encode(0, {&scale, 1}, {.seed = 1});
  ASSERT_TRUE(first_code.ok());
  const std::vector<uint8_t> first_bytes(first_code->span().begin(), first_code->span().end());
  const uint8_t* reused_memory = nullptr;
  for (uint64_t round = 1; round < 4; ++round) {
    const auto other_code = model_->codes().Encode(0, {&scale, 1}, {.seed = 1, .round = round});
    ASSERT_TRUE(other_code.ok());
    EXPECT_NE(other_code->data(), first_code->data());
    EXPECT_TRUE(reused_memory == nullptr || other_code->data() == reused_memory)
        << "memory is used again";
    reused_memory = other_code->data();
  }
  EXPECT_EQ(first_bytes,
            std::vector<uint8_t>(first_code->span().begin(), first_code->span().end()));
}

class DeviceCodecs : public DeviceModelTest, public testing::WithParamInterface<CodecCase> {};

TEST_P(DeviceCodecs, CodesAndMemoryMatchCpu) {
  MakeModel("sgd", GetParam());
  CpuCoder cpu(layout_);
  for (uint64_t round = 0; round < 4; ++round) {
    const std::vector<float> gradients = RandomValues(static_cast<uint32_t>(20 + round));
    const kernels::NoiseKey noise{.seed = 9, .rank = 1, .round = round};
    const auto expected = cpu.EncodeRound(gradients, noise);
    CopyGradientsToDevice(gradients);
    PrepareBuckets(cpu, noise);
    for (uint32_t c = 0; c < layout_.chunks.size(); ++c)
      EXPECT_EQ(BytesOrFail(EncodeChunk(c, cpu, noise)), expected[c])
          << "round " << round << ", chunk " << c;
  }
  const auto expected_memories = cpu.CodecMemories();
  std::vector<std::vector<float>> device_memories(expected_memories.size(),
                                                  std::vector<float>(kElements));
  std::vector<std::span<float>> spans(device_memories.begin(), device_memories.end());
  ASSERT_TRUE(model_->codes().CopyMemoryToHost(0, spans).ok());
  size_t array_index = 0;
  for (const auto& [name, values] : expected_memories)
    EXPECT_EQ(device_memories[array_index++], values) << name;
}

TEST_P(DeviceCodecs, ContinueFromSavedMemory) {
  MakeModel("sgd", GetParam());
  CpuCoder cpu(layout_);
  const kernels::NoiseKey noise{.seed = 9, .rank = 1, .round = 1};
  cpu.EncodeRound(RandomValues(30), noise);
  auto saved_memories = cpu.CodecMemories();
  std::vector<std::span<float>> spans;
  for (auto& [name, values] : saved_memories) spans.emplace_back(values);
  std::vector<std::span<float>> first_parts, second_parts;
  for (const std::span<float> memory : spans) {
    first_parts.push_back(memory.first(2000));
    second_parts.push_back(memory.subspan(2000));
  }
  ASSERT_TRUE(model_->codes().CopyMemoryToDevice(0, first_parts).ok());
  ASSERT_TRUE(model_->codes().CopyMemoryToDevice(2000, second_parts).ok());
  const auto expected = cpu.EncodeRound(gradients_, noise);
  PrepareBuckets(cpu, noise);
  for (uint32_t c = 0; c < layout_.chunks.size(); ++c)
    EXPECT_EQ(BytesOrFail(EncodeChunk(c, cpu, noise)), expected[c]) << "chunk " << c;

  ASSERT_TRUE(model_->codes().ResetMemory().ok());
  ASSERT_TRUE(model_->codes().CopyMemoryToHost(0, spans).ok());
  for (const auto& [name, values] : saved_memories)
    EXPECT_EQ(values, std::vector<float>(kElements)) << name;
}

TEST_P(DeviceCodecs, UpdatesFromSumsMatchCpu) {
  MakeModel("momentum", GetParam());
  ExpectStepEqualsCpu();
}

// Each sum is dropped as soon as its update is launched, and the next is placed before the device
// has run that update.
TEST_P(DeviceCodecs, UpdateFromSumsThatWerePlaced) {
  MakeModel("momentum", GetParam());
  constexpr int kRounds = 3;
  std::vector<float> expected = weights_;
  for (int round = 0; round < kRounds; ++round) {
    for (uint32_t c = 0; c < layout_.chunks.size(); ++c) {
      const std::vector<uint8_t> sums = EncodedSumsOf(c);
      UpdateChunkOnCpu(c, sums, &expected);
      const Bytes arrived = Bytes::Own(sums), placed = model_->PlaceSum(arrived);
      EXPECT_NE(placed.data(), arrived.data());
      ASSERT_TRUE(UpdateChunk(c, placed.span()).ok());
    }
  }
  ExpectStateOnDevice(expected);
}

TEST_P(DeviceCodecs, RefuseSumsOfAnotherSize) {
  MakeModel("sgd", GetParam());
  std::vector<uint8_t> sums = EncodedSumsOf(1);
  sums.pop_back();
  EXPECT_EQ(UpdateChunk(1, sums).code(), Code::kMismatch);
  sums.resize(sums.size() + 2);
  EXPECT_EQ(UpdateChunk(1, sums).code(), Code::kMismatch);
}

// Prepare returns statistics of the tensor, which show a value that is not finite. If a codec needs
// no statistics, Encode finds the value and fails once.
TEST_P(DeviceCodecs, ReportNonFiniteValues) {
  MakeModel("sgd", GetParam());
  std::vector<float> gradients = gradients_;
  gradients[7000] = std::numeric_limits<float>::quiet_NaN();
  CopyGradientsToDevice(gradients);
  const auto prepare_stats = model_->codes().Prepare(1, {});
  ASSERT_TRUE(prepare_stats.ok());
  if (prepare_stats->empty()) {
    EXPECT_EQ(model_->codes().Encode(2, {}, {}).status().code(), Code::kDiverged);
    EXPECT_TRUE(model_->codes().Encode(0, {}, {}).ok()) << "it is not counted again";
  }
  const auto stats = model_->codes().StatsOfCodedValues(0, 1);
  ASSERT_TRUE(stats.ok());
  EXPECT_FALSE(stats->front().is_finite);
}

using codec::Options;

Options OptionsOf(const Options::Qsgd& qsgd) {
  Options options;
  options.qsgd = qsgd;
  return options;
}
Options OptionsOfOneBit(uint64_t elements) {
  Options options;
  options.keys.mutable_onebit()->set_bucket_elements(elements);
  return options;
}
Options Rotated(Options options, uint64_t block) {
  options.rotate = block;
  options.seed = 77;
  return options;
}
Options OptionsOf(const Options::TopK& topk) {
  Options options;
  options.topk = topk;
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Each, DeviceCodecs,
    testing::Values(CodecCase{"ternary"}, CodecCase{"fp32", "fp32"}, CodecCase{"fp16", "fp16"},
                    CodecCase{"bf16", "bf16"},
                    CodecCase{"qsgd", "qsgd", OptionsOf(Options::Qsgd{.bucket = 100})},
                    CodecCase{"pqasgd", "qsgd",
                              OptionsOf(Options::Qsgd{.bucket = 100,
                                                      .norm = Options::Qsgd::Norm::kTwo,
                                                      .levels = Options::Qsgd::Levels::kSqrtN})},
                    CodecCase{"ternary_rotated", "ternary", Rotated({}, 1024)},
                    CodecCase{"qsgd_rotated", "qsgd",
                              Rotated(OptionsOf(Options::Qsgd{.bucket = 128}), 64)},
                    CodecCase{"onebit", "onebit"},
                    CodecCase{"onebit_buckets", "onebit", OptionsOfOneBit(100)},
                    CodecCase{"topk", "topk"},
                    CodecCase{"dgc", "topk",
                              OptionsOf(Options::TopK{.ratio = 0.01,
                                                      .sample_ratio = 0.05,
                                                      .momentum = 0.9,
                                                      .nesterov = true,
                                                      .clip_norm = 5,
                                                      .warmup_rounds = 3})},
                    CodecCase{"dgc_adapts", "topk",
                              OptionsOf(Options::TopK{.ratio = 0.02,
                                                      .sample_ratio = 0.01,
                                                      .resample = false,
                                                      .momentum = 0.5,
                                                      .masking = false})},
                    CodecCase{"all", "topk", OptionsOf(Options::TopK{.ratio = 1})}),
    [](const auto& info) { return std::string(info.param.name); });

class DeviceUpdate : public DeviceModelTest, public testing::WithParamInterface<const char*> {};

TEST_P(DeviceUpdate, MatchesCpu) {
  MakeModel(GetParam());
  ExpectStepEqualsCpu();
}

INSTANTIATE_TEST_SUITE_P(Rules, DeviceUpdate,
                         testing::Values("sgd", "momentum", "nesterov", "adam", "rmsprop"));

// LARS needs norms of whole tensors, without the weight decay that gradients have. No worker has
// sent anything for the last chunk of the second tensor.
TEST_F(DeviceModelTest, WholeTensorOptimizersMatchCpu) {
  MakeModel("lars");
  std::vector<float> expected = weights_, means(kElements);
  for (uint32_t c = 0; c < 2; ++c) {
    const std::vector<float> chunk_means = DecodedMeansOf(c, EncodedSumsOf(c));
    std::copy(chunk_means.begin(), chunk_means.end(),
              means.begin() + static_cast<std::ptrdiff_t>(layout_.chunks[c][0].begin));
  }
  for (int update = 0; update < 2; ++update) {
    for (uint32_t b = 0; b < 2; ++b) ASSERT_TRUE(model_->ClearMeans(b).ok());
    for (uint32_t c = 0; c < 2; ++c) {
      const std::vector<float> scalers(layout_.chunks[c].size(), kEncodeParams.scaler);
      const std::vector<uint8_t> sums = EncodedSumsOf(c);
      ASSERT_TRUE(model_->DecodeMeans(c, {sums, kWorkerCount, scalers}).ok());
    }
    for (uint32_t b = 0; b < 2; ++b) {
      const kernels::Part& part = layout_.buckets[b][0];
      std::vector<float> loss_gradient(part.count);
      kernels::AddDecay(means.data() + part.begin, expected.data() + part.begin, part.count,
                        -kDecayRate, loss_gradient.data());
      const auto squares = model_->SquareSumsOf(b, {&kDecayRate, 1});
      ASSERT_TRUE(squares.ok());
      kernels::TensorRates rates = kRates;
      rates.local_rate =
          optimizer_->LarsRatioOf(squares->front().weights, squares->front().means, kDecayRate);
      ASSERT_TRUE(
          model_->UpdateBucket(b, optimizer_->CoefficientsOf(kUpdateStep), {&rates, 1}).ok());
      optimizer_->Update(expected.data() + part.begin, loss_gradient.data(), part.begin, part.count,
                         kUpdateStep, kRates);
    }
  }
  ExpectStateOnDevice(expected);
}

// Sums are sent as three bit planes, which can hold -4 to 3; but sums of two workers' ternary codes
// are only -2 to 2.
TEST_F(DeviceModelTest, InvalidSumsAreDetected) {
  MakeModel("sgd");
  std::vector<uint8_t> sums(EncodedSumsOf(0).size());
  sums[0] = 1;                // sets bit 0 of the first sum,
  sums[sums.size() / 3] = 1;  // and its bit 1: the sum is 3
  ASSERT_TRUE(UpdateChunk(0, sums).ok());
  EXPECT_EQ(model_->CheckSums(kNow).code(), Code::kMismatch);
}

TEST_F(DeviceModelTest, EarlierSumsAreCheckedWithoutAWait) {
  MakeModel("sgd");
  std::vector<uint8_t> sums(EncodedSumsOf(0).size());
  sums[0] = 1;
  sums[sums.size() / 3] = 1;
  ASSERT_TRUE(model_->CheckSums(kLater).ok());
  ASSERT_TRUE(UpdateChunk(0, sums).ok());
  ASSERT_TRUE(model_->CopyToHost(HostArrays()).ok());  // waits
  EXPECT_TRUE(model_->CheckSums(kLater).ok()) << "of the sums before the first call";
  ASSERT_TRUE(model_->CopyToHost(HostArrays()).ok());
  EXPECT_EQ(model_->CheckSums(kLater).code(), Code::kMismatch);
}

// A sparse code that contains nearly all elements with their positions, although sending all
// elements without positions would be smaller.
TEST_F(DeviceModelTest, TooLargeSumsAreRefused) {
  MakeModel("sgd", {"topk", "topk"});
  const uint16_t sent_counts[] = {4095, 1803};  // of the 5900 elements in blocks of 4096 and 1804
  std::vector<uint8_t> sums;
  size_t sums_bytes = sizeof sent_counts;
  for (const uint16_t elements_sent : sent_counts) {
    sums.push_back(static_cast<uint8_t>(elements_sent));
    sums.push_back(static_cast<uint8_t>(elements_sent >> 8));
    sums_bytes += kernels::SparseBodySize(elements_sent, elements_sent + 1u);
  }
  sums.resize(sums_bytes);
  ASSERT_GT(sums_bytes, codec_->MaxSumSize(SegmentOf(layout_.chunks[2][0]), kWorkerCount));
  EXPECT_EQ(UpdateChunk(2, sums).code(), Code::kMismatch);
}

TEST_F(DeviceModelTest, NonFiniteMeansAreDetected) {
  for (const char* name : {"fp32", "fp16", "bf16"}) {
    MakeModel("sgd", {name, name});
    std::vector<uint8_t> sums = EncodedSumsOf(0);
    std::fill(sums.end() - 4, sums.end(), 0xFF);
    ASSERT_TRUE(UpdateChunk(0, sums).ok());
    EXPECT_EQ(model_->CheckSums(kNow).code(), Code::kMismatch) << name;
  }
}

TEST_F(DeviceModelTest, AddsDecay) {
  MakeModel("sgd");
  ASSERT_TRUE(model_->AddDecay(2000, 500, 0.5f).ok());
  const std::vector<float> gradients = GradientsOnDevice();
  EXPECT_EQ(gradients[1999], gradients_[1999]);
  EXPECT_EQ(gradients[2000], gradients_[2000] + 0.5f * weights_[2000]);
  EXPECT_EQ(gradients[2500], gradients_[2500]);
}

TEST_F(DeviceModelTest, ClippingMatchesCpu) {
  MakeModel("sgd");
  const auto squares = model_->SumOfSquaredGradients();
  ASSERT_TRUE(squares.ok());
  EXPECT_EQ(std::sqrt(*squares), update::Norm(gradients_.data(), kElements));
  ASSERT_TRUE(model_->ScaleGradients(0.3f).ok());
  std::vector<float> expected = gradients_;
  kernels::Scale(expected.data(), kElements, 0.3f);
  EXPECT_EQ(GradientsOnDevice(), expected);
}

TEST_F(DeviceModelTest, CountsAndCopiesGradients) {
  MakeModel("sgd");
  const float least_magnitude = std::abs(gradients_[2100]);
  const auto count = model_->codes().CountAtLeast(0, 1, std::vector<float>{least_magnitude});
  ASSERT_TRUE(count.ok());
  const auto expected =
      std::count_if(gradients_.begin() + 2000, gradients_.end(),
                    [&](float gradient) { return std::abs(gradient) >= least_magnitude; });
  EXPECT_EQ(*count, static_cast<uint64_t>(expected));
  EXPECT_EQ(*model_->codes().CountAtLeast(0, 1, std::vector<float>{-1}), 0u);
  std::vector<float> copied_gradients(50);
  ASSERT_TRUE(model_->codes().CopyGradientsToHost(0, 1990, copied_gradients).ok());
  EXPECT_EQ(copied_gradients,
            std::vector<float>(gradients_.begin() + 1990, gradients_.begin() + 2040));
}

// What a codec with a rotation clamps are rotated values.
TEST_F(DeviceModelTest, CountsRotatedValues) {
  MakeModel("sgd", {"rotated", "ternary", Rotated({}, 256)});
  std::vector<float> rotated(2000);
  codec_->Rotate(0, 0, {gradients_.data(), rotated.size()}, rotated.data());
  const float magnitude = 0.7f;
  const auto expected = std::count_if(rotated.begin(), rotated.end(),
                                      [&](float v) { return std::abs(v) >= magnitude; });
  ASSERT_GT(expected, 0);
  const Result<uint64_t> count = model_->codes().CountAtLeast(0, 0, {&magnitude, 1});
  ASSERT_TRUE(count.ok()) << count.status().message();
  EXPECT_EQ(*count, static_cast<uint64_t>(expected));
}

TEST_F(DeviceModelTest, AverageMatchesCpu) {
  MakeModel("sgd", {"ternary"}, /*has_average=*/true);
  std::vector<float> expected = average_;
  kernels::EmaUpdate(expected.data() + 100, weights_.data() + 100, 5000, 0.1f);
  kernels::EmaUpdate(expected.data() + 6000, weights_.data() + 6000, 300, 0.2f);
  std::vector<float> expected_weights = weights_;
  std::copy_n(expected.begin() + 6000, 300, expected_weights.begin() + 6000);
  ASSERT_TRUE(model_->UpdateAverage(100, 5000, 0.1f, DeviceModel::Weights::kKept).ok());
  ASSERT_TRUE(model_->UpdateAverage(6000, 300, 0.2f, DeviceModel::Weights::kReplaced).ok());
  ASSERT_TRUE(model_->CopyToHost(HostArrays()).ok());
  EXPECT_EQ(average_, expected);
  EXPECT_EQ(weights_, expected_weights);
}

TEST(DeviceModelCodes, MatchTheTableOfCodecs) {
  for (const std::string& name : codec::CodecNames()) {
    const auto codec = std::move(*codec::MakeCodec(name, {}));
    DeviceModel::Layout layout = LayoutOfTwoTensors(false);
    layout.codec = codec.get();
    EXPECT_EQ(DeviceModel::Make(layout).ok(), codec::CanEncodeOnDevice(*codec)) << name;
  }
  Options options_with_feedback;
  options_with_feedback.error_feedback = true;
  EXPECT_FALSE(codec::CanEncodeOnDevice(**codec::MakeCodec("fp16", options_with_feedback)));
}

}  // namespace
}  // namespace tern::device
