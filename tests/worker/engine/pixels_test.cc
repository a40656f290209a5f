// A net fed with bytes must train like one fed with the corresponding floats.
#include <gtest/gtest.h>

#include "tests/worker/engine/problem.h"

namespace tern::engine {
namespace {

constexpr const char* kPixelNet =
    "conv { outputs: 8 kernel: 3 }; batch_norm {}; relu {}; max_pool { kernel: 2 stride: 2 }; "
    "dense { outputs: 10 }";
constexpr uint32_t kBatch = 3, kSide = 9, kImageElements = 3 * kSide * kSide;

kernels::PixelRule MakeRule(bool uses_colors, bool standardizes) {
  return {{{.mean = 0.4f, .deviation = 0.2f}, {.mean = 0.5f, .deviation = 0.25f}, {.scale = 2}},
          uses_colors,
          standardizes};
}

// The same batch as bytes and as floats. Every step has another batch.
struct PixelBatch {
  PixelBatch(uint64_t step_number, const kernels::PixelRule& rule)
      : step(step_number), bytes(kBatch * kImageElements), images(bytes.size()), labels(kBatch) {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(Draw(i));
    const kernels::PixelTables tables(rule);
    for (uint32_t n = 0; n < kBatch; ++n) {
      draws.push_back({20.f * static_cast<float>(n), 0.5f + static_cast<float>(n), (n + 1) % 2});
      labels[n] = Draw(bytes.size() + n) % 10;
      tables.ToFloats(bytes.data() + size_t{n} * kImageElements, kSide, kSide, draws[n],
                      images.data() + size_t{n} * kImageElements);
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

Problem MakeProblem() {
  return Problem(MakeChain(kPixelNet, MakeImageShape(3, kSide, kSide), 10), kBatch);
}

double RunStep(Net* net, const Net::Feed& feed, const PixelBatch* next_batch = nullptr) {
  const double loss = net->Forward(feed, nullptr);
  if (next_batch != nullptr) net->Stage(next_batch->AsBytes());
  net->Backward(nullptr);
  EXPECT_TRUE(net->status().ok()) << net->status().message();
  return loss;
}

// Trains with bytes and with floats and expects equal losses, gradients and statistics.
void ExpectSameSteps(Precision precision, const kernels::PixelRule& rule) {
  std::vector<PixelBatch> batches;
  for (uint64_t step = 0; step < 7; ++step) batches.emplace_back(step, rule);
  Problem float_problem = MakeProblem(), byte_problem = MakeProblem();
  const auto float_net = float_problem.MakeNet(true, precision);
  const auto byte_net = byte_problem.MakeNet(true, precision, rule);
  std::vector<std::shared_ptr<void>> page_locks;
  for (const PixelBatch& batch : batches)
    page_locks.push_back(byte_net->Pin(batch.bytes.data(), batch.bytes.size()));
  for (size_t i = 0; i < batches.size(); ++i) {
    // Stages the next batch, except that at i = 3 it stages another batch, and at i = 5 none.
    const PixelBatch* next_batch =
        i == 5 ? nullptr : &batches[i == 3 ? 0 : (i + 1) % batches.size()];
    const double loss = RunStep(float_net.get(), batches[i].AsFloats());
    EXPECT_EQ(RunStep(byte_net.get(), batches[i].AsBytes(), next_batch), loss) << i;
    EXPECT_EQ(byte_problem.gradients, float_problem.gradients) << i;
    EXPECT_EQ(byte_problem.statistics, float_problem.statistics) << i;
    for (Problem* problem : {&float_problem, &byte_problem})
      for (float& w : problem->parameters) w *= 0.9f;
  }
  byte_net->Unstage();
}

TEST(Pixels, TrainLikeTheirFloats) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    ExpectSameSteps(precision, MakeRule(false, false));
    ExpectSameSteps(precision, MakeRule(true, true));
  }
}

// If gradients overflow in half precision, the step is repeated with the same batch, although the
// next batch has been staged.
TEST(Pixels, RepeatedStepUsesTheSameBatch) {
  ExpectSameSteps(Precision::kFp16, {{{.scale = 2000}, {.scale = 3000}, {.scale = 2000}}});
}

TEST(Pixels, UnstagedBatchCanBeReplaced) {
  const kernels::PixelRule pixel_rule = MakeRule(false, false);
  const PixelBatch first_batch(1, pixel_rule), other_batch(2, pixel_rule);
  PixelBatch changed_batch(3, pixel_rule);
  Problem float_problem = MakeProblem(), byte_problem = MakeProblem();
  const auto float_net = float_problem.MakeNet(),
             byte_net = byte_problem.MakeNet(true, Precision::kFp32, pixel_rule);
  const auto page_lock = byte_net->Pin(changed_batch.bytes.data(), changed_batch.bytes.size());
  RunStep(float_net.get(), first_batch.AsFloats());
  RunStep(byte_net.get(), first_batch.AsBytes(), &changed_batch);
  byte_net->Unstage();
  std::copy(other_batch.bytes.begin(), other_batch.bytes.end(), changed_batch.bytes.begin());
  changed_batch.images = other_batch.images;
  EXPECT_EQ(RunStep(byte_net.get(), changed_batch.AsBytes()),
            RunStep(float_net.get(), changed_batch.AsFloats()));
}

TEST(Pixels, EvaluationUsesAPartOfABatch) {
  const kernels::PixelRule pixel_rule = MakeRule(false, true);
  Problem problem = MakeProblem();
  const auto float_net = problem.MakeNet(false),
             byte_net = problem.MakeNet(false, Precision::kFp32, pixel_rule);
  for (uint64_t step = 1; step <= 3; ++step) {
    const PixelBatch batch(step, pixel_rule);
    Net::Feed as_floats = batch.AsFloats(), as_bytes = batch.AsBytes();
    as_floats.used = as_bytes.used = 2;
    std::vector<float> scores(kBatch * 10), expected_scores(kBatch * 10);
    as_floats.scores = expected_scores;
    as_bytes.scores = scores;
    Score score, expected_score;
    EXPECT_EQ(byte_net->Forward(as_bytes, &score), float_net->Forward(as_floats, &expected_score));
    EXPECT_EQ(score.loss, expected_score.loss);
    EXPECT_EQ(scores, expected_scores);
  }
}

}  // namespace
}  // namespace tern::engine
