// Tests of DownLink, with which a server sends a worker the changes of the weights, with every
// codec that a job may use for them: how far the worker's weights are from the server's, and how
// many bytes are sent.
#include "server/central/down_link.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>

#include "common/codec/codecs.h"
#include "common/protocol/rounds/cells.h"
#include "kernels/codes/stats.h"
#include "tests/server/central/central_job.h"

namespace tern::server {
namespace {

constexpr uint64_t kNumElements = 392 * 40 + 40 + 40 * 3 + 3;
constexpr double kUpdateRms = 1e-3;  // The root mean square of the update of an element in a step.

// Makes a job whose model is one chunk: a matrix of 392 x 40 weights, and three small tensors.
std::unique_ptr<setup::Setup> MakeJob(const std::string& codec) {
  std::vector<std::string> overrides = {"train.algorithm=ssgd",         "exchange.pull=changes",
                                        "exchange.pull_codec=" + codec, "exchange.chunk_kib=4096",
                                        "model.net.input.height=14",    "model.net.input.width=28"};
  if (codec == "topk") overrides.push_back("exchange.topk.ratio=0.01");
  if (codec == "threshold") overrides.push_back("exchange.threshold.value=0.002");
  return MakeCentralJob(overrides);
}

// A server whose weights make a random walk, and a worker that receives every change.
class RandomWalk {
 public:
  explicit RandomWalk(const setup::Setup& job)
      : job_(job),
        chunk_(*ChunksOf(job)[0]),
        server_weights_(InitialWeights(job)),
        worker_weights_(server_weights_),
        down_link_(job, chunk_, 1, server_weights_) {
    EXPECT_EQ(chunk_.count, kNumElements);
  }

  void MakeStep() {
    std::normal_distribution<double> normal;
    for (float& w : server_weights_) {
      const double x = normal(random_);
      // The third power has heavy tails, as gradients have; its mean square is 15.
      w += static_cast<float>(kUpdateRms * x * x * x / std::sqrt(15.0));
    }
    change_.clear();
    for (size_t i = 0; i < server_weights_.size(); ++i)
      change_.push_back(server_weights_[i] - worker_weights_[i]);
    const auto answer = down_link_.Encode(0, server_weights_, version_ + 1, version_);
    ++version_;
    ASSERT_FALSE(answer.is_fp32);
    answer_ = answer.payload;
    ASSERT_NO_FATAL_FAILURE(
        ApplyServerAnswer(job_, chunk_, false, answer.payload, &worker_weights_));
    const std::span<const float> tracked_weights = down_link_.HeldWeights(0, server_weights_);
    ASSERT_TRUE(
        std::equal(tracked_weights.begin(), tracked_weights.end(), worker_weights_.begin()));
  }
  // Returns the root mean square of the difference between the worker's and the server's weights,
  // divided by kUpdateRms.
  double Distance() const {
    double sum_of_squares = 0;
    for (size_t i = 0; i < server_weights_.size(); ++i)
      sum_of_squares += std::pow(server_weights_[i] - worker_weights_[i], 2);
    return std::sqrt(sum_of_squares / static_cast<double>(server_weights_.size())) / kUpdateRms;
  }
  // Makes `num_steps` steps and returns the largest distance.
  double LargestDistanceIn(int num_steps) {
    double largest_distance = 0;
    for (int i = 0; i < num_steps && !testing::Test::HasFatalFailure(); ++i) {
      MakeStep();
      largest_distance = std::max(largest_distance, Distance());
    }
    return largest_distance;
  }
  // The newest answer, and the change that it encodes.
  const Bytes& answer() const { return answer_; }
  const std::vector<float>& change() const { return change_; }
  uint64_t version() const { return version_; }
  const protocol::Chunk& chunk() const { return chunk_; }

 private:
  const setup::Setup& job_;
  const protocol::Chunk& chunk_;
  std::mt19937_64 random_{1};
  std::vector<float> server_weights_, worker_weights_, change_;
  DownLink down_link_;
  uint64_t version_ = 0;
  Bytes answer_;
};

// Returns how many bytes the newest change would have if a worker encoded it as its push. Uses the
// random numbers of the server, because topk samples elements at random.
size_t PushSizeOfNewestChange(const setup::Setup& job, const RandomWalk& walk) {
  const codec::Codec& codec = *job.plan.pull_codec;
  kernels::NoiseKey noise;
  noise.seed = job.job.seed();
  noise.stream = kernels::NoiseStream::kServerCodes;
  noise.round = walk.version();
  std::vector<uint8_t> code;
  const float* next_change = walk.change().data();
  for (const codec::Segment& segment : walk.chunk().segments) {
    const std::span<const float> values(next_change, segment.count);
    const kernels::Stats stats = kernels::ComputeStats(values.data(), values.size());
    codec.Encode(next_change, segment, codec.Prepare(stats, values, noise), noise, &code);
    next_change += segment.count;
  }
  return code.size();
}

std::vector<std::string> DeterministicCodecNames() {
  std::vector<std::string> names;
  for (const std::string& name : codec::CodecNames()) {
    const auto codec = codec::MakeCodec(name, {});
    EXPECT_TRUE(codec.ok());
    if (!(*codec)->is_stochastic()) names.push_back(name);
  }
  return names;
}

class Changes : public testing::TestWithParam<std::string> {};

// What a code leaves out is part of the next change, so the distance stays below a few updates.
TEST_P(Changes, KeepWorkersWithinSomeUpdatesOfTheServers) {
  const auto job = MakeJob(GetParam());
  RandomWalk walk(*job);
  const double first_distance = walk.LargestDistanceIn(60),
               second_distance = walk.LargestDistanceIn(60);
  EXPECT_LT(second_distance, 5);
  EXPECT_LE(second_distance, 1.15 * first_distance);
  EXPECT_EQ(second_distance == 0, GetParam() == "fp32");
}

TEST_P(Changes, HaveTheSizeOfAWorkersPush) {
  const auto job = MakeJob(GetParam());
  RandomWalk walk(*job);
  walk.LargestDistanceIn(20);
  EXPECT_EQ(walk.answer().size(), PushSizeOfNewestChange(*job, walk));
  EXPECT_LE(walk.answer().size(), walk.chunk().max_sum_bytes);
  const std::map<std::string, double> min_ratios = {
      {"fp32", 1},  {"fp16", 2},       {"bf16", 2},       {"onebit", 27},
      {"topk", 70}, {"threshold", 28}, {"adaptive", 250}, {"adacomp", 40}};
  const double ratio = 4.0 * kNumElements / static_cast<double>(walk.answer().size());
  EXPECT_GE(ratio, min_ratios.at(GetParam()));
}

TEST_P(Changes, AreCheckedLikeAWorkersPush) {
  const auto job = MakeJob(GetParam());
  RandomWalk walk(*job);
  walk.MakeStep();
  const auto check_push = [&](const Bytes& answer) {
    return protocol::CheckSums(job->plan, walk.chunk(), answer, 1);
  };
  EXPECT_TRUE(check_push(walk.answer()).ok());
  EXPECT_FALSE(check_push(walk.answer().Slice(0, walk.answer().size() - 1)).ok());
  std::vector<uint8_t> longer_answer(walk.answer().span().begin(), walk.answer().span().end());
  longer_answer.push_back(0);
  EXPECT_FALSE(check_push(Bytes::Own(std::move(longer_answer))).ok());
}

INSTANTIATE_TEST_SUITE_P(By, Changes, testing::ValuesIn(DeterministicCodecNames()),
                         [](const auto& info) { return info.param; });

// A job whose pull codec is replaced by `ternary` after its validation.
class ChangesByTernaryCodes : public testing::Test {
 protected:
  ChangesByTernaryCodes() {
    codec::Options options;
    options.clip = codec::Clip::kNone;
    options.scaler_per_worker = true;
    auto ternary = codec::MakeCodec("ternary", options);
    EXPECT_TRUE(ternary.ok());
    ternary_ = std::move(*ternary);
    job_->plan.pull_codec = ternary_.get();
    for (protocol::Bucket& bucket : job_->plan.buckets) {
      for (protocol::Chunk& chunk : bucket.chunks)
        chunk.max_sum_bytes = chunk.count * sizeof(float);
    }
  }

  const std::unique_ptr<setup::Setup> job_ = MakeJob("fp32");
  std::unique_ptr<codec::Codec> ternary_;
};

TEST_F(ChangesByTernaryCodes, HaveNoiseOfTheirOwnForEachWorkerAndVersion) {
  const std::vector<float> initial = InitialWeights(*job_);
  std::vector<float> w = initial;
  for (size_t i = 0; i < w.size(); ++i) w[i] += std::sin(static_cast<float>(i));
  const auto code_of = [&](uint32_t receiver, uint64_t version) {
    DownLink down_link(*job_, *ChunksOf(*job_)[0], 2, initial);
    return std::string(down_link.Encode(receiver, w, version, 0).payload.view());
  };
  EXPECT_EQ(code_of(0, 1), code_of(0, 1));
  EXPECT_NE(code_of(0, 1), code_of(1, 1));
  EXPECT_NE(code_of(0, 1), code_of(0, 2));
}

// Shows why the validation of jobs refuses stochastic codecs for changes: the distance grows
// without bound.
TEST_F(ChangesByTernaryCodes, WouldTakeWorkersEverFartherFromTheServers) {
  RandomWalk walk(*job_);
  const double first_distance = walk.LargestDistanceIn(60),
               second_distance = walk.LargestDistanceIn(60);
  EXPECT_GT(first_distance, 20);
  EXPECT_GT(second_distance, 1.15 * first_distance);
}

}  // namespace
}  // namespace tern::server
