// A net fed with bytes must train like one fed with the corresponding floats.
#include <gtest/gtest.h>

#include "tests/worker/engine/problem.h"

namespace tern::engine {
namespace {

constexpr const char* kLayers =
    "conv { outputs: 8 kernel: 3 }; batch_norm {}; relu {}; max_pool { kernel: 2 stride: 2 }; "
    "dense { outputs: 10 }";
constexpr uint32_t kBatch = 3, kSide = 9, kImage = 3 * kSide * kSide;

kernels::PixelRule Rule(bool colors, bool standardize) {
  return {{{.mean = 0.4f, .deviation = 0.2f}, {.mean = 0.5f, .deviation = 0.25f}, {.scale = 2}},
          colors,
          standardize};
}

// The same batch as bytes and as floats. Every step has another batch.
struct PixelBatch {
  PixelBatch(uint64_t step_number, const kernels::PixelRule& rule)
      : step(step_number), bytes(kBatch * kImage), images(bytes.size()), labels(kBatch) {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(Draw(i));
    const kernels::PixelTables tables(rule);
    for (uint32_t n = 0; n < kBatch; ++n) {
      draws.push_back({20.f * static_cast<float>(n), 0.5f + static_cast<float>(n), (n + 1) % 2});
      labels[n] = Draw(bytes.size() + n) % 10;
      tables.ToFloats(bytes.data() + size_t{n} * kImage, kSide, kSide, draws[n],
                      images.data() + size_t{n} * kImage);
    }
  }
  uint32_t Draw(size_t i) const { return kernels::Draw32({.seed = step, .tensor = 9}, i); }
  Net::Feed AsFloats() const { return {images, labels, kBatch, step}; }
  Net::Feed AsBytes() const {
    Net::Feed feed{{}, labels, kBatch, step};
    feed.bytes = bytes;
    feed.draws = draws;
    return feed;
  }

  uint64_t step;
  std::vector<uint8_t> bytes;
  std::vector<kernels::PixelDraws> draws;
  std::vector<float> images;
  std::vector<uint32_t> labels;
};

Problem MakeProblem() { return Problem(Chain(kLayers, Image(3, kSide, kSide), 10), kBatch); }

double RunStep(Net* net, const Net::Feed& feed, const PixelBatch* next = nullptr) {
  const double loss = net->Forward(feed, nullptr);
  if (next != nullptr) net->Stage(next->AsBytes());
  net->Backward(nullptr);
  EXPECT_TRUE(net->status().ok()) << net->status().message();
  return loss;
}

// Trains with bytes and with floats and expects equal losses. The next batch of bytes is uploaded
// while the net computes the current step.
void ExpectSameSteps(Precision precision, const kernels::PixelRule& rule) {
  std::vector<PixelBatch> feds;
  for (uint64_t step = 0; step < 7; ++step) feds.emplace_back(step, rule);
  Problem by_floats = MakeProblem(), by_bytes = MakeProblem();
  const auto floats = by_floats.Make(true, precision);
  const auto bytes = by_bytes.Make(true, precision, rule);
  for (size_t i = 0; i < feds.size(); ++i) {
    // At i = 3 another batch than the next one is staged; at i = 5 none is.
    const PixelBatch* next = i == 5 ? nullptr : &feds[i == 3 ? 0 : (i + 1) % feds.size()];
    const double loss = RunStep(floats.get(), feds[i].AsFloats());
    EXPECT_EQ(RunStep(bytes.get(), feds[i].AsBytes(), next), loss) << i;
    EXPECT_EQ(by_bytes.gradients, by_floats.gradients) << i;
    EXPECT_EQ(by_bytes.statistics, by_floats.statistics) << i;
    for (Problem* problem : {&by_floats, &by_bytes})
      for (float& w : problem->parameters) w *= 0.9f;
  }
}

TEST(Pixels, TrainLikeTheirFloats) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    ExpectSameSteps(precision, Rule(false, false));
    ExpectSameSteps(precision, Rule(true, true));
  }
}

// If gradients overflow in half precision, the step is repeated with the same batch, although the
// next one has been staged.
TEST(Pixels, RepeatedStepUsesTheSameBatch) {
  ExpectSameSteps(Precision::kFp16, {{{.scale = 2000}, {.scale = 3000}, {.scale = 2000}}});
}

TEST(Pixels, UnstagedBatchCanBeReplaced) {
  const kernels::PixelRule rule = Rule(false, false);
  const PixelBatch first(1, rule), other(2, rule);
  PixelBatch changed(3, rule);
  Problem by_floats = MakeProblem(), by_bytes = MakeProblem();
  const auto floats = by_floats.Make(), bytes = by_bytes.Make(true, Precision::kFp32, rule);
  RunStep(floats.get(), first.AsFloats());
  RunStep(bytes.get(), first.AsBytes(), &changed);
  bytes->Unstage();
  changed.bytes = other.bytes;
  changed.images = other.images;
  EXPECT_EQ(RunStep(bytes.get(), changed.AsBytes()), RunStep(floats.get(), changed.AsFloats()));
}

TEST(Pixels, EvaluationUsesAPartOfABatch) {
  const kernels::PixelRule rule = Rule(false, true);
  Problem problem = MakeProblem();
  const auto floats = problem.Make(false), bytes = problem.Make(false, Precision::kFp32, rule);
  for (uint64_t step = 1; step <= 3; ++step) {
    const PixelBatch fed(step, rule);
    Net::Feed as_floats = fed.AsFloats(), as_bytes = fed.AsBytes();
    as_floats.used = as_bytes.used = 2;
    std::vector<float> scores(kBatch * 10), expected(kBatch * 10);
    as_floats.scores = expected;
    as_bytes.scores = scores;
    Score score, expected_score;
    EXPECT_EQ(bytes->Forward(as_bytes, &score), floats->Forward(as_floats, &expected_score));
    EXPECT_EQ(score.loss, expected_score.loss);
    EXPECT_EQ(scores, expected);
  }
}

}  // namespace
}  // namespace tern::engine
