// Later steps of a net on a GPU: launches replayed as a CUDA graph must give the same results as
// fresh launches. cuda_on_host emulates a GPU on the CPU.
#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include "tests/worker/engine/problem.h"

namespace tern::engine {
namespace {

constexpr const char* kReplayedLayers =
    "conv { outputs: 4 kernel: 3 }; batch_norm {}; relu {}; dropout { rate: 0.5 }; "
    "dense { outputs: 10 }";

class ReplayTest : public testing::Test {
 protected:
  void TearDown() override { cuda_on_host::launches_left = ~uint64_t{0}; }

  // Runs a step of `net`. Every call first changes the images and the weights.
  static std::vector<float> RunStep(Net* net, Problem* problem, uint64_t step) {
    for (float& w : problem->parameters) w *= 0.9f;
    for (float& x : problem->images) x += 0.01f;
    net->Forward({problem->images, problem->labels, problem->batch, step}, nullptr);
    net->Backward(nullptr);
    EXPECT_TRUE(net->status().ok()) << net->status().message();
    return problem->gradients;
  }
};

TEST_F(ReplayTest, EqualsFreshLaunches) {
  Problem replayed_problem(MakeChain(kReplayedLayers, MakeImageShape(1, 8, 8), 10), 3),
      fresh_problem = replayed_problem;
  auto net = replayed_problem.MakeNet();
  const uint64_t graphs_before = cuda_on_host::graphs_launched;
  for (uint64_t step = 1; step <= 4; ++step) {
    EXPECT_EQ(RunStep(net.get(), &replayed_problem, step),
              RunStep(fresh_problem.MakeNet().get(), &fresh_problem, step))
        << step;
    EXPECT_EQ(replayed_problem.statistics, fresh_problem.statistics) << step;
  }
  EXPECT_EQ(cuda_on_host::graphs_launched - graphs_before, 6u)
      << "forward and backward from the second";
  EXPECT_EQ(net->planning().segments, 2u);
  EXPECT_EQ(net->planning().graphs, 2u);
  EXPECT_GT(net->planning().graph_nodes, 2u * 5);
}

// The weights of this net are so large that each pass has several segments. The launches of a
// segment are recorded and replayed as one graph. Parameters are requested, and gradients reported
// ready, by segment.
TEST_F(ReplayTest, LargeNetsRunInSegments) {
  Problem problem(
      MakeChain("dense { outputs: 2000 }; dense { outputs: 1100 }; dense { outputs: 10 }",
                MakeImageShape(1, 24, 24), 10),
      1);
  auto net = problem.MakeNet();
  const uint64_t graphs_before = cuda_on_host::graphs_launched;
  for (int step = 0; step < 3; ++step) {
    std::vector<uint32_t> needed_order, ready_order;
    net->Forward({problem.images, problem.labels, 1}, nullptr, [&needed_order](uint32_t p) {
      needed_order.push_back(p);
      return true;
    });
    net->Backward([&ready_order](uint32_t p) { ready_order.push_back(p); });
    EXPECT_THAT(needed_order, testing::ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(ready_order, testing::ElementsAre(5, 4, 3, 2, 1, 0));
  }
  EXPECT_EQ(cuda_on_host::graphs_launched - graphs_before, 2u * (3 + 2));
  EXPECT_EQ(net->planning().segments, 3u + 2u);
  EXPECT_EQ(net->planning().graphs, 3u + 2u);
}

// Without cuDNN, all passes are loops of our own. The gradient of the images is not computed.
TEST_F(ReplayTest, NamesThePassesOfOurOwnLoops) {
  Problem problem(MakeChain(kReplayedLayers, MakeImageShape(1, 8, 8), 10), 3);
  EXPECT_THAT(problem.MakeNet()->planning().own_loops,
              testing::ElementsAre("data fp32 3x1x1x144 to 1x1x10 by 1/1/1/0 1/1/1/0 in 1",
                                   "forward fp32 3x1x1x144 to 1x1x10 by 1/1/1/0 1/1/1/0 in 1, bias",
                                   "forward fp32 3x8x8x1 to 6x6x4 by 3/1/1/0 3/1/1/0 in 1, bias",
                                   "weights fp32 3x1x1x144 to 1x1x10 by 1/1/1/0 1/1/1/0 in 1",
                                   "weights fp32 3x8x8x1 to 6x6x4 by 3/1/1/0 3/1/1/0 in 1"));
}

TEST_F(ReplayTest, EndedPassStops) {
  Problem problem(
      MakeChain("dense { outputs: 2000 }; dense { outputs: 1100 }; dense { outputs: 10 }",
                MakeImageShape(1, 24, 24), 10),
      1);
  auto net = problem.MakeNet();
  uint32_t num_requests = 0;
  net->Forward({problem.images, problem.labels, 1}, nullptr, [&num_requests](uint32_t p) {
    ++num_requests;
    return p < 2;
  });
  EXPECT_EQ(num_requests, 3u);
  EXPECT_TRUE(net->status().ok()) << "that is no error";
}

// Stage uploads the next step's batch, and Forward then does not upload this batch again: changes
// of the bytes after that copy have no effect. Forward uploads a batch that was not staged.
TEST_F(ReplayTest, StagedBatchIsUploadedOnce) {
  Problem problem(MakeChain("dense { outputs: 10 }", MakeImageShape(1, 8, 8), 10), 3);
  auto net = problem.MakeNet(true, Precision::kFp32, kernels::PixelRule{.channels = {{}}});
  std::vector<uint8_t> bytes(3 * 64, 100), other_bytes(3 * 64, 200);
  const std::vector<kernels::PixelDraws> draws(3);
  Net::Feed feed{{}, problem.labels, 3, 1};
  feed.bytes = bytes;
  feed.draws = draws;
  const auto loss_of_step = [&](uint64_t step) {
    feed.step = step;
    const double loss = net->Forward(feed, nullptr);
    feed.step = step + 1;
    net->Stage(feed);
    net->Backward(nullptr);
    cuda_on_host::Device::Get().FinishAll();
    return loss;
  };
  const double loss_of_bytes = loss_of_step(1);
  bytes = other_bytes;
  EXPECT_EQ(loss_of_step(2), loss_of_bytes);
  const double loss_of_other_bytes = loss_of_step(3);
  EXPECT_NE(loss_of_other_bytes, loss_of_bytes);
  std::fill(bytes.begin(), bytes.end(), 100);
  EXPECT_EQ(loss_of_step(7), loss_of_bytes) << "another step than was staged";
  feed.bytes = other_bytes;
  EXPECT_EQ(loss_of_step(8), loss_of_other_bytes) << "another place";
}

TEST_F(ReplayTest, FailureInAReplayIsReported) {
  Problem problem(MakeChain(kReplayedLayers, MakeImageShape(1, 8, 8), 10), 3);
  auto net = problem.MakeNet();
  for (uint64_t step = 1; step <= 3; ++step) RunStep(net.get(), &problem, step);
  cuda_on_host::launches_left = 3;
  net->Forward({problem.images, problem.labels, 3}, nullptr);
  EXPECT_THAT(net->status().message(), testing::HasSubstr("cudaGraphLaunch"));
}

}  // namespace
}  // namespace tern::engine
