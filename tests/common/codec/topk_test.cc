// Tests of the codec topk (deep gradient compression): which elements are sent, and what a worker
// keeps in its memory for later rounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/codes/stats.h"
#include "tests/common/codec/sparse_cases.h"

namespace tern::codec {
namespace {

Options OptionsWithRatio(double ratio) {
  Options options;
  options.topk.ratio = ratio;
  return options;
}
std::unique_ptr<Codec> MakeTopKCodec(double ratio) {
  return MakeValidCodec("topk", OptionsWithRatio(ratio));
}

INSTANTIATE_TEST_SUITE_P(TopK, CodecConformance,
                         testing::Values(CodecCase{
                             .name = "TopK",
                             .make = [] { return MakeTopKCodec(0.25); },
                             .is_plausible = [](float g, float,
                                                float mean) { return mean == 0 || mean == g; },
                             .unused_bits = UnusedBitsOfFloats,
                             .golden_payloads = {"0300"
                                                 "2204"
                                                 "000080bf0000803f0000603f",
                                                 "0500"
                                                 "5604"
                                                 "000000bf0000403f0000003f0000c0bf0000003f"},
                             .golden_sum = "0600"
                                           "7604"
                                           "000040bf0000c03e0000803e0000003f000040bf0000303f",
                             .sizes_vary = true}),
                         CaseName);

// The magnitudes 1 to n in a random order, with random signs.
std::vector<float> DistinctMagnitudes(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> g(n);
  for (size_t i = 0; i < n; ++i) g[i] = static_cast<float>(i + 1);
  std::shuffle(g.begin(), g.end(), random);
  for (float& v : g) v = random() % 2 == 0 ? v : -v;
  return g;
}

// The number of elements that were sent.
uint64_t CountSent(const std::vector<float>& sent) {
  return sent.size() - static_cast<uint64_t>(std::count(sent.begin(), sent.end(), 0.f));
}

EncodeParams PrepareGradient(const Codec& codec, const std::vector<float>& g,
                             kernels::NoiseKey noise = {}) {
  return codec.Prepare(kernels::ComputeStats(g.data(), g.size()), g, noise);
}

TEST(TopK, SendsTheLargestOfASmallTensorExactly) {
  const auto codec = MakeTopKCodec(0.1);
  // g has fewer than 2 / ratio elements, so all of them give the threshold, not a sample.
  const std::vector<float> g = DistinctMagnitudes(19, 1);
  Sender worker(*codec, g.size());
  const std::vector<float> sent = worker.Send(g);
  for (size_t i = 0; i < g.size(); ++i) EXPECT_EQ(sent[i], std::abs(g[i]) >= 18 ? g[i] : 0);
}

// The number of elements whose magnitude reaches the threshold.
uint64_t CountAtLeast(const std::vector<float>& g, float threshold) {
  return static_cast<uint64_t>(
      std::count_if(g.begin(), g.end(), [&](float v) { return std::abs(v) >= threshold; }));
}

TEST(TopK, ASampledThresholdSendsAboutTheRatio) {
  const auto codec = MakeTopKCodec(0.001);
  uint64_t total_sent = 0;
  for (uint64_t round = 0; round < 50; ++round) {
    const std::vector<float> g = SomeGradient(200000, round);
    kernels::NoiseKey noise;
    noise.round = round;
    const uint64_t num_sent = CountAtLeast(g, PrepareGradient(*codec, g, noise).high);
    EXPECT_GE(num_sent, 160u);
    EXPECT_LE(num_sent, 260u);
    total_sent += num_sent;
  }
  EXPECT_NEAR(static_cast<double>(total_sent) / 50, 200, 20);
}

// The paper's authors allow this in place of resampling: a threshold that lets too many elements
// pass is multiplied by 1.3, and one that lets too few pass by 0.8, ten times at most.
TEST(TopK, ThresholdMovesInStepsWithoutResampling) {
  Options options = OptionsWithRatio(0.01);
  options.topk.resample = false;
  const auto codec = MakeValidCodec("topk", options);
  int num_threshold_changes = 0;
  for (uint64_t round = 0; round < 60; ++round) {
    const std::vector<float> g = SomeGradient(50000, round);
    kernels::NoiseKey noise;
    noise.round = round;
    uint64_t sample_index = kernels::Draw32(noise, 0) % 99;  // every 99th element is a sample
    std::vector<float> sample;
    for (; sample_index < g.size(); sample_index += 99) sample.push_back(std::abs(g[sample_index]));
    std::sort(sample.begin(), sample.end(), std::greater<>());
    float threshold =
        sample[static_cast<size_t>(std::ceil(0.01 * static_cast<double>(sample.size()))) - 1];
    for (int step = 0; step < 10; ++step) {
      const auto num_sent = static_cast<double>(CountAtLeast(g, threshold));
      if (num_sent >= 0.8 * 500 && num_sent <= 1.3 * 500) break;
      threshold *= num_sent > 500 ? 1.3f : 0.8f;
      ++num_threshold_changes;
    }
    ASSERT_EQ(PrepareGradient(*codec, g, noise).high, threshold) << round;
  }
  EXPECT_GT(num_threshold_changes, 20);
}

// Inputs of which a sample tells little: 5000 neighbouring elements that are much larger than the
// others, or zeros with few other values.
TEST(TopK, AdaptsIfTheSampleMisleads) {
  const size_t n = 100000;
  std::vector<float> gradient_with_burst = SomeGradient(n, 1);
  for (size_t i = 0; i < 5000; ++i) gradient_with_burst[i] *= 100;
  std::vector<float> mostly_zeros(n);
  for (size_t i = 0; i < 1000; ++i) mostly_zeros[97 * i] = static_cast<float>(i + 1);
  const auto codec = MakeTopKCodec(0.002);
  for (const std::vector<float>& g : {gradient_with_burst, mostly_zeros}) {
    for (uint64_t round = 0; round < 20; ++round) {
      Sender worker(*codec, n);
      const uint64_t num_sent = CountSent(worker.Send(g, round));
      EXPECT_GE(num_sent, 160u);
      EXPECT_LE(num_sent, 260u);
    }
  }
}

// The sample's threshold lies among 140 outliers. Lowered ten times, it may fall among the others,
// of which thousands reach it.
TEST(TopK, SelectsExactlyIfTheLastAdaptationLetsTooManyPass) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> others(-0.12f, 0.12f), outliers(0.9f, 1.1f);
  const auto codec = MakeTopKCodec(0.001);
  int num_exact = 0;
  for (uint64_t round = 1; round <= 100; ++round) {
    std::vector<float> g(200000);
    for (float& value : g) value = others(random);
    for (int i = 0; i < 140; ++i) g[random() % g.size()] = outliers(random);
    Sender worker(*codec, g.size());
    const uint64_t num_sent = CountSent(worker.Send(g, round));
    EXPECT_LE(num_sent, 260u) << round;
    num_exact += num_sent == 200 ? 1 : 0;
  }
  EXPECT_GT(num_exact, 10);
}

// A sample of zeros gives the threshold zero, which a factor cannot change.
TEST(TopK, SelectsExactlyIfTheSampleIsZero) {
  Options options = OptionsWithRatio(0.002);
  options.topk.resample = false;
  const auto codec = MakeValidCodec("topk", options);
  std::vector<float> g(100000);  // every 99th is sampled: most samples miss all non-zeros
  for (size_t i = 0; i < 1000; ++i) g[99 * i + 7] = static_cast<float>(i + 1);
  for (uint64_t round = 0; round < 10; ++round) {
    Sender worker(*codec, g.size());
    EXPECT_EQ(CountSent(worker.Send(g, round)), 200u);
  }
}

TEST(TopK, SampleStartDependsOnWorkerAndRound) {
  Options options = OptionsWithRatio(0.001);
  options.topk.resample = false;
  const auto codec = MakeValidCodec("topk", options);
  const std::vector<float> g = SomeGradient(300000, 4);
  const auto threshold_of = [&](uint16_t rank, uint64_t round, uint32_t tensor) {
    kernels::NoiseKey noise;
    noise.rank = rank;
    noise.round = round;
    noise.tensor = tensor;
    return PrepareGradient(*codec, g, noise).high;
  };
  EXPECT_EQ(threshold_of(0, 0, 0), threshold_of(0, 0, 0));
  EXPECT_NE(threshold_of(0, 0, 0), threshold_of(1, 0, 0));
  EXPECT_NE(threshold_of(0, 0, 0), threshold_of(0, 1, 0));
  EXPECT_NE(threshold_of(0, 0, 0), threshold_of(0, 0, 1));
}

TEST(TopK, TheRatioFallsByStepsDuringWarmUp) {
  Options options = OptionsWithRatio(0.001);
  options.topk.sample_ratio = 1;
  options.topk.warmup_rounds = 40;  // ratios .25, .0625, .015625, .00390625, for ten rounds each
  const auto codec = MakeValidCodec("topk", options);
  const std::vector<float> g = DistinctMagnitudes(100000, 3);
  for (const auto& [round, expected_count] :
       std::vector<std::pair<uint64_t, uint64_t>>{{1, 25000},
                                                  {10, 25000},
                                                  {11, 6250},
                                                  {20, 6250},
                                                  {21, 1563},
                                                  {31, 391},
                                                  {40, 391},
                                                  {41, 100},
                                                  {1000, 100}}) {
    Sender worker(*codec, g.size());
    EXPECT_EQ(CountSent(worker.Send(g, round)), expected_count) << round;
  }
  options.topk.ratio = 0.5;  // The ratio is above the warm-up's first ratio.
  const auto codec_above_warmup = MakeValidCodec("topk", options);
  Sender worker(*codec_above_warmup, g.size());
  EXPECT_EQ(CountSent(worker.Send(g, 0)), 50000u);
}

// If all elements are sent, without momentum correction and masking, the result equals that of
// fp32.
TEST(TopK, RatioOneEqualsFp32) {
  Options options = OptionsWithRatio(1);
  options.topk.masking = false;
  const auto topk = MakeValidCodec("topk", options);
  const auto fp32 = MakeValidCodec("fp32", {});
  const size_t n = 10001;
  Sender worker0(*topk, n), worker1(*topk, n);
  for (uint64_t round = 0; round < 20; ++round) {
    const std::vector<std::vector<float>> g = {SomeGradient(n, round), SomeGradient(n, round + 99)};
    Round topk_round;
    topk_round.gradients = g;
    worker0.Send(g[0], round);
    worker1.Send(g[1], round);
    topk_round.payloads = {worker0.code(), worker1.code()};
    ASSERT_EQ(Mean(*topk, topk_round), Mean(*fp32, MakeRound(*fp32, g)));
    ASSERT_EQ(worker0.SavedArray("accumulated"), std::vector<float>(n));
    ASSERT_LE(worker0.code().size(), 4 * n + 6);
  }
}

// The values sent plus the values kept equal the input. The gradients are small integers, so that
// sums are exact.
TEST(TopK, NothingIsLost) {
  const auto codec = MakeTopKCodec(0.05);
  const size_t n = 3000;
  Sender worker(*codec, n);
  std::mt19937_64 random(8);
  std::vector<float> total_input(n), received(n);
  for (uint64_t round = 0; round < 60; ++round) {
    std::vector<float> g(n);
    for (size_t i = 0; i < n; ++i) {
      g[i] = static_cast<float>(random() % 17) - 8;
      total_input[i] += g[i];
    }
    const std::vector<float> sent = worker.Send(g, round);
    for (size_t i = 0; i < n; ++i) received[i] += sent[i];
    const std::vector<float> not_sent = worker.SavedArray("accumulated");
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(received[i] + not_sent[i], total_input[i]);
  }
  EXPECT_GT(CountSent(received), n / 2);
}

struct MemoryOptions {
  double momentum;
  bool is_nesterov, has_masking;
  double clip_norm;
};

class DgcMemoryEquations : public testing::TestWithParam<MemoryOptions> {};
INSTANTIATE_TEST_SUITE_P(
    All, DgcMemoryEquations,
    testing::Values(MemoryOptions{0, false, true, 0}, MemoryOptions{0.9, false, true, 0},
                    MemoryOptions{0.9, false, false, 0}, MemoryOptions{0.9, true, true, 0},
                    MemoryOptions{0.5, false, true, 3}, MemoryOptions{0, true, false, 1e-3}));

// Compares the codec with a loop that carries out momentum correction, clipping and masking: m is
// the momentum factor, u the momentum, and v the sum of what was not sent.
TEST_P(DgcMemoryEquations, FollowTheAlgorithm) {
  const MemoryOptions& memory_options = GetParam();
  Options options = OptionsWithRatio(0.1);
  options.topk.momentum = memory_options.momentum;
  options.topk.nesterov = memory_options.is_nesterov;
  options.topk.masking = memory_options.has_masking;
  options.topk.clip_norm = memory_options.clip_norm;
  const auto codec = MakeValidCodec("topk", options);
  const size_t n = 500;
  const auto m = static_cast<float>(memory_options.momentum);
  Sender worker(*codec, n);
  std::vector<float> u(n), v(n);
  for (uint64_t round = 0; round < 40; ++round) {
    std::vector<float> g = SomeGradient(n, round);
    const std::vector<float> sent = worker.Send(g, round, 123);
    const double norm = std::sqrt(kernels::ComputeStats(g.data(), n).sum_squares);
    if (memory_options.clip_norm > 0 && norm > memory_options.clip_norm) {
      for (float& x : g) x *= static_cast<float>(memory_options.clip_norm / norm);
    }
    for (size_t i = 0; i < n; ++i) {
      u[i] = memory_options.is_nesterov ? m * (u[i] + g[i]) : m * u[i] + g[i];
      v[i] = v[i] + (memory_options.is_nesterov ? u[i] + g[i] : u[i]);
      ASSERT_EQ(worker.compensated()[i], v[i]);
      if (sent[i] == 0) continue;
      ASSERT_EQ(sent[i], v[i]);
      v[i] = 0;
      if (memory_options.has_masking) u[i] = 0;
    }
    ASSERT_EQ(worker.SavedArray("accumulated"), v);
    if (memory_options.momentum > 0) {
      ASSERT_EQ(worker.SavedArray("momentum"), u);
    }
    ASSERT_GE(CountSent(sent), 40u);
    ASSERT_LE(CountSent(sent), 65u);
  }
}

// Whether the arrays of both memories have the same bits.
bool HaveEqualBits(Memory& a, Memory& b) {
  SavedState state_of_a, state_of_b;
  a.AddState(&state_of_a);
  b.AddState(&state_of_b);
  bool are_equal = state_of_a.arrays.size() == state_of_b.arrays.size();
  for (size_t i = 0; are_equal && i < state_of_a.arrays.size(); ++i) {
    const auto x = state_of_a.arrays[i].values, y = state_of_b.arrays[i].values;
    are_equal = x.size() == y.size() && std::memcmp(x.data(), y.data(), 4 * x.size()) == 0;
  }
  return are_equal;
}

// A codec whose codes send floats, and what its memory is made of.
struct PositionsCase {
  const char* codec;
  double momentum;
  bool masking;
};
class PositionsAreEnough : public testing::TestWithParam<PositionsCase> {};

// UpdateMemory takes the positions from the code; Update gets all decoded values.
TEST_P(PositionsAreEnough, ForTheMemory) {
  Options options = OptionsWithRatio(0.3);  // with 50 elements a block may be dense
  options.topk.momentum = GetParam().momentum;
  options.topk.masking = GetParam().masking;
  options.keys.mutable_threshold()->set_ratio(0.3);
  options.error_feedback = true;
  const auto codec = MakeValidCodec(GetParam().codec, options);
  for (const uint64_t count : {50, 3 * 4096 + 100}) {
    const auto memory = codec->NewMemory(count), reference = codec->NewMemory(count);
    std::vector<float> room(count), other_room(count), sent(count);
    const Segment segment{0, 0, count};
    for (uint64_t round = 0; round < 20; ++round) {
      std::vector<float> g = DistinctMagnitudes(count, round);
      for (uint64_t i = 0; i < count; i += 7) g[i] = i % 2 == 0 ? -0.f : 0;
      const std::span<const float> v = memory->Compensate(0, g, room);
      std::vector<uint8_t> code;
      codec->Encode(v.data(), segment,
                    codec->Prepare(kernels::ComputeStats(v.data(), count), v, {}), {}, &code);
      ASSERT_TRUE(codec->DecodeSingleCode(code, segment, sent.data()).ok());
      reference->Update(0, reference->Compensate(0, g, other_room), sent);
      ASSERT_TRUE(codec->UpdateMemory(code, segment, v, memory.get()).ok());
      ASSERT_TRUE(HaveEqualBits(*memory, *reference)) << "round " << round;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, PositionsAreEnough,
                         testing::Values(PositionsCase{"topk", 0, true},
                                         PositionsCase{"topk", 0.9, true},
                                         PositionsCase{"topk", 0.9, false},
                                         PositionsCase{"threshold", 0, false}));

TEST(DgcMemory, RestoredMemoryContinuesBitForBit) {
  Options options = OptionsWithRatio(0.01);
  options.topk.momentum = 0.9;
  const auto codec = MakeValidCodec("topk", options);
  Sender uninterrupted(*codec, 5000), resumed(*codec, 5000);
  for (uint64_t round = 0; round < 10; ++round) {
    if (round == 5) resumed.RestoreFrom(uninterrupted);
    const std::vector<float> g = SomeGradient(5000, round);
    const std::vector<float> sent = uninterrupted.Send(g, round);
    if (round < 5) continue;
    ASSERT_EQ(resumed.Send(g, round), sent);
    ASSERT_EQ(resumed.code(), uninterrupted.code());
  }
  ASSERT_NE(uninterrupted.SavedArray("momentum"), std::vector<float>(5000));
  uninterrupted.memory().Reset();
  EXPECT_EQ(uninterrupted.SavedArray("momentum"), std::vector<float>(5000));
  EXPECT_EQ(uninterrupted.SavedArray("accumulated"), std::vector<float>(5000));
}

TEST(TopK, ResultsDoNotDependOnChunking) {
  const auto codec = MakeTopKCodec(0.02);
  const std::vector<float> g = SomeGradient(20000, 6);
  Sender unchunked(*codec, g.size()), chunked(*codec, g.size());
  for (uint64_t round = 0; round < 3; ++round)
    ASSERT_EQ(unchunked.Send(g, round), chunked.Send(g, round, 777));
}

TEST(TopK, NonFiniteGradientsAreVisible) {
  Options options = OptionsWithRatio(0.01);
  options.topk.momentum = 0.9;
  options.topk.clip_norm = 1;
  const auto codec = MakeValidCodec("topk", options);
  for (float bad_value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> g = SomeGradient(100, 1);
    g[50] = bad_value;
    Sender worker(*codec, 100);
    worker.Send(g);
    EXPECT_FALSE(std::isfinite(worker.compensated()[50]));
  }
}

// An element that is sent takes 4 bytes for its value, and little more than 2 for its position.
TEST(TopK, SizeIsLittleMoreThanTheValues) {
  const size_t n = 1 << 20;
  const auto codec = MakeTopKCodec(0.001);
  Sender worker(*codec, n);
  const uint64_t num_sent = CountSent(worker.Send(SomeGradient(n, 2)));
  EXPECT_LT(static_cast<double>(worker.code().size()), 6.3 * static_cast<double>(num_sent));
}

TEST(TopK, InvalidOptionsAreRefusedByName) {
  const double nan = std::nan("");
  const auto expect_refused = [](const char* key, double Options::TopK::*field, double value) {
    Options options;
    options.topk.*field = value;
    ExpectRefused("topk", options, std::string("exchange.topk.") + key);
  };
  for (double bad_value : {0.0, -1.0, 1.5, nan}) {
    expect_refused("ratio", &Options::TopK::ratio, bad_value);
    expect_refused("sample_ratio", &Options::TopK::sample_ratio, bad_value);
    expect_refused("warmup_ratio", &Options::TopK::warmup_ratio, bad_value);
  }
  expect_refused("warmup_ratio", &Options::TopK::warmup_ratio, 1);
  for (double bad_value : {-0.1, 1.0, nan})
    expect_refused("momentum", &Options::TopK::momentum, bad_value);
  for (double bad_value : {-0.1, HUGE_VAL, nan})
    expect_refused("clip_norm", &Options::TopK::clip_norm, bad_value);
}

}  // namespace
}  // namespace tern::codec
