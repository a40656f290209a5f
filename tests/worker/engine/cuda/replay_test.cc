// Later steps of a net on a GPU: replayed launches must give the same results as the first ones.
#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include "tests/worker/engine/problem.h"

namespace tern::engine {
namespace {

constexpr const char* kLayers =
    "conv { outputs: 4 kernel: 3 }; batch_norm {}; relu {}; dropout { rate: 0.5 }; "
    "dense { outputs: 10 }";

class Replay : public testing::Test {
 protected:
  void TearDown() override { cuda_on_host::launches_left = ~uint64_t{0}; }

  // One step of `net`, with other images and weights each time.
  static std::vector<float> RunStep(Net* net, Problem* problem, uint64_t step) {
    for (float& w : problem->parameters) w *= 0.9f;
    for (float& x : problem->images) x += 0.01f;
    net->Forward({problem->images, problem->labels, problem->batch, step}, nullptr);
    net->Backward(nullptr);
    EXPECT_TRUE(net->status().ok()) << net->status().message();
    return problem->gradients;
  }
};

TEST_F(Replay, EqualsFreshLaunches) {
  Problem replayed(Chain(kLayers, Image(1, 8, 8), 10), 3), fresh = replayed;
  auto net = replayed.Make();
  const uint64_t before = cuda_on_host::graphs_launched;
  for (uint64_t step = 1; step <= 4; ++step) {
    EXPECT_EQ(RunStep(net.get(), &replayed, step), RunStep(fresh.Make().get(), &fresh, step))
        << step;
    EXPECT_EQ(replayed.statistics, fresh.statistics) << step;
  }
  EXPECT_EQ(cuda_on_host::graphs_launched - before, 6u) << "forward and backward from the second";
}

// Weights larger than a segment: they are requested, and their gradients reported ready, segment by
// segment.
TEST_F(Replay, LargeNetsRunInSegments) {
  Problem problem(Chain("dense { outputs: 2000 }; dense { outputs: 1100 }; dense { outputs: 10 }",
                        Image(1, 24, 24), 10),
                  1);
  auto net = problem.Make();
  const uint64_t before = cuda_on_host::graphs_launched;
  for (int step = 0; step < 3; ++step) {
    std::vector<uint32_t> needed, ready;
    net->Forward({problem.images, problem.labels, 1}, nullptr, [&needed](uint32_t p) {
      needed.push_back(p);
      return true;
    });
    net->Backward([&ready](uint32_t p) { ready.push_back(p); });
    EXPECT_THAT(needed, testing::ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(ready, testing::ElementsAre(5, 4, 3, 2, 1, 0));
  }
  EXPECT_EQ(cuda_on_host::graphs_launched - before, 2u * (3 + 2));
}

TEST_F(Replay, EndedPassStops) {
  Problem problem(Chain("dense { outputs: 2000 }; dense { outputs: 1100 }; dense { outputs: 10 }",
                        Image(1, 24, 24), 10),
                  1);
  auto net = problem.Make();
  uint32_t asked = 0;
  net->Forward({problem.images, problem.labels, 1}, nullptr, [&asked](uint32_t p) {
    ++asked;
    return p < 2;
  });
  EXPECT_EQ(asked, 3u);
  EXPECT_TRUE(net->status().ok()) << "that is no error";
}

// A staged batch is not uploaded again. Copies are immediate here, so later changes of the caller's
// bytes do not matter. A batch at another address, or for another step, is uploaded.
TEST_F(Replay, StagedBatchIsUploadedOnce) {
  Problem problem(Chain("dense { outputs: 10 }", Image(1, 8, 8), 10), 3);
  auto net = problem.Make(true, Precision::kFp32, kernels::PixelRule{.channels = {{}}});
  std::vector<uint8_t> bytes(3 * 64, 100), others(3 * 64, 200);
  const std::vector<kernels::PixelDraws> draws(3);
  Net::Feed feed{{}, problem.labels, 3, 1};
  feed.bytes = bytes;
  feed.draws = draws;
  const auto take = [&](uint64_t step) {
    feed.step = step;
    const double loss = net->Forward(feed, nullptr);
    feed.step = step + 1;
    net->Stage(feed);
    net->Backward(nullptr);
    return loss;
  };
  const double of_bytes = take(1);
  bytes = others;
  EXPECT_EQ(take(2), of_bytes);
  const double of_others = take(3);
  EXPECT_NE(of_others, of_bytes);
  std::fill(bytes.begin(), bytes.end(), 100);
  EXPECT_EQ(take(7), of_bytes) << "another step than was staged";
  feed.bytes = others;
  EXPECT_EQ(take(8), of_others) << "another place";
}

TEST_F(Replay, FailureInAReplayIsReported) {
  Problem problem(Chain(kLayers, Image(1, 8, 8), 10), 3);
  auto net = problem.Make();
  for (uint64_t step = 1; step <= 3; ++step) RunStep(net.get(), &problem, step);
  cuda_on_host::launches_left = 3;
  net->Forward({problem.images, problem.labels, 3}, nullptr);
  EXPECT_THAT(net->status().message(), testing::HasSubstr("cudaGraphLaunch"));
}

}  // namespace
}  // namespace tern::engine
