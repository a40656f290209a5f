// Steps played through in virtual time, against arithmetic by hand. Seconds and bytes are round
// numbers: a link of 8 / kGoodput Mbit/s carries 1e6 bytes a second.
#include "tools/forecast/model.h"

#include <gtest/gtest.h>

namespace tern::tools {
namespace {

constexpr double kMega = 1e6;

Network Link(double mega_bytes_s) {
  Network network;
  network.server_mbit = 8 * mega_bytes_s / kGoodput;
  return network;
}

// Compute of 3 s (a wait); one bucket of one chunk, ready at its end.
StepCosts OneChunk(uint32_t workers, double push, double sum) {
  StepCosts costs;
  costs.compute_s = 3;
  costs.pace.enough = workers;
  costs.lanes = {1};
  costs.credit_bytes = 1e12;
  BucketCost& bucket = costs.buckets.emplace_back();
  bucket.ready_s = 3;
  bucket.chunks.push_back({.push_bytes = push * kMega, .sum_bytes = sum * kMega});
  return costs;
}

double StepOf(const StepCosts& costs, uint32_t workers, const Network& network,
              const Profile& profile = {}) {
  const auto forecast = PlayStep(costs, profile, workers, network);
  EXPECT_TRUE(forecast.ok()) << forecast.status().message();
  return forecast.ok() ? forecast->step_s : -1;
}

TEST(Model, OneWorkerWaitsForUpAndDown) {
  const auto forecast = PlayStep(OneChunk(1, 2, 1), {}, 1, Link(1));
  ASSERT_TRUE(forecast.ok());
  EXPECT_NEAR(forecast->step_s, 3 + 2 + 1, 1e-9);
  EXPECT_NEAR(forecast->compute_s, 3, 1e-9);
  EXPECT_NEAR(forecast->exchange_s, 3, 1e-9);
  EXPECT_NEAR(forecast->busy_s, 3, 1e-9);
}

TEST(Model, WorkersShareTheServersLink) {
  EXPECT_NEAR(StepOf(OneChunk(4, 2, 1), 4, Link(1)), 3 + 4 * 2 + 4 * 1, 1e-9);
}

TEST(Model, AWorkersOwnLinkBounds) {
  Network network = Link(4);
  network.worker_mbit = network.server_mbit / 8;  // 0.5 MB/s each; together no more than 2
  EXPECT_NEAR(StepOf(OneChunk(4, 2, 1), 4, network), 3 + 4 + 2, 1e-9);
}

TEST(Model, EveryPieceOfWorkCounts) {
  StepCosts costs = OneChunk(2, 2, 1);
  BucketCost& bucket = costs.buckets[0];
  bucket.prepare_s = 0.1;
  bucket.apply_s = 0.2;
  bucket.chunks[0].encode_s = 0.3;
  bucket.chunks[0].add_s = 0.04;  // of two, one after the other
  bucket.chunks[0].close_s = 0.5;
  EXPECT_NEAR(StepOf(costs, 2, Link(1)), 3 + 0.1 + 0.3 + 4 + 2 * 0.04 + 0.5 + 2 + 0.2, 1e-9);
}

// Two chunks of 2 up and 1 down: the sum of the first travels beside the push of the second, and
// the two answers are there 1 after that: 2 + 2 + 1.
TEST(Model, ChunksTravelBothWaysAtOnce) {
  StepCosts costs = OneChunk(1, 2, 1);
  costs.buckets[0].chunks.push_back(costs.buckets[0].chunks[0]);
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + 2 + 2 + 1, 1e-9);
}

TEST(Model, ABucketLeavesWhileBackwardRuns) {
  StepCosts costs = OneChunk(1, 2, 1);
  costs.buckets.insert(costs.buckets.begin(), costs.buckets[0]);
  costs.buckets[0].ready_s = 1;  // up from 1 to 3, down until 4; the second up 3 to 5, down until 6
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 6, 1e-9);
  costs.pace.push = Pace::Push::kAfterCompute;
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + 2 + 2 + 1, 1e-9);
}

// A tenth of what goes one way comes back the other way: nothing where that is idle, as much more
// where it is busy.
TEST(Model, AcknowledgementsTakeTheirRoom) {
  Network network = Link(1);
  network.acknowledged = 0.1;
  EXPECT_NEAR(StepOf(OneChunk(1, 2, 1), 1, network), 3 + 2 + 1, 1e-9);
  StepCosts costs = OneChunk(1, 2, 2);
  for (int i = 0; i < 9; ++i) costs.buckets[0].chunks.push_back(costs.buckets[0].chunks[0]);
  const double step = StepOf(costs, 1, network);  // ten chunks: 20 up, and 0.1 of nine sums
  EXPECT_NEAR(step, 3 + 20 + 9 * 0.2 + 2, 0.3);
}

// The first bucket's answer is there 2 before the second's: its update of 1.5 hides behind that.
TEST(Model, BucketsAreAppliedAsTheirAnswersCome) {
  StepCosts costs = OneChunk(1, 2, 1);
  costs.buckets[0].apply_s = 1.5;
  costs.buckets.push_back(costs.buckets[0]);
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + 2 + 2 + 1 + 1.5 + 1.5, 1e-9);
  costs.pace.by_bucket = true;
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + 2 + 2 + 1 + 1.5, 1e-9);
}

// The second bucket has the first layers.
TEST(Model, TheNextForwardWaitsForWhatItNeeds) {
  StepCosts costs = OneChunk(1, 2, 1);
  costs.buckets.push_back(costs.buckets[0]);
  costs.buckets[0].need_s = 1;
  costs.pace.by_bucket = true;
  costs.pace.in_forward = true;
  // Up 3 to 5 and 5 to 7, down until 6 and 8: the forward stands from its beginning until 8.
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + 2 + 2 + 1, 1e-9);
  costs.buckets[0].ready_s = 1;  // up from 1 to 3, down until 4; the second up 3 to 5, down until 6
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + 2 + 1, 1e-9);
  // Of two chunks in the first bucket, and credit for one of them all: one is up and down until 6,
  // then the second bucket until 9, the other chunk until 12; the forward stands until 9, and after
  // a second again until 12.
  costs.buckets[0].ready_s = 3;
  costs.buckets[0].chunks.push_back(costs.buckets[0].chunks[0]);
  costs.credit_bytes = 2.5 * kMega;
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + 3 * (2 + 1) - 1, 1e-9);
  costs.pace.in_forward = false;
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + 3 * (2 + 1), 1e-9);
}

TEST(Model, SharedScalersTakeARoundTrip) {
  StepCosts costs = OneChunk(1, 2, 1);
  costs.buckets[0].scale_bytes = costs.buckets[0].scaled_bytes = 0.25 * kMega;
  Network network = Link(1);
  network.latency_s = 0.125;
  EXPECT_NEAR(StepOf(costs, 1, network), 3 + (2 * 0.25 + 2 * 0.125) + (2 + 1 + 2 * 0.125), 1e-9);
}

TEST(Model, CreditHoldsPushesBack) {
  StepCosts costs = OneChunk(1, 1, 1);
  for (int i = 0; i < 3; ++i) costs.buckets[0].chunks.push_back(costs.buckets[0].chunks[0]);
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + 4 + 1, 1e-9);
  costs.credit_bytes = 1.5 * kMega;  // one chunk without an answer at a time
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + 4 * 2, 1e-9);
}

TEST(Model, ShardsAddTheirLinks) {
  StepCosts costs = OneChunk(2, 2, 1);
  costs.buckets[0].chunks.push_back(costs.buckets[0].chunks[0]);
  EXPECT_NEAR(StepOf(costs, 2, Link(1)), 3 + 4 + 4 + 2, 1e-9);
  costs.lanes = {1, 1};
  costs.buckets[0].chunks[1].shard = 1;
  EXPECT_NEAR(StepOf(costs, 2, Link(1)), 3 + 4 + 2, 1e-9);
}

// OD-SGD: a step waits for the exchange before its own. If T_com = 2 + 1 is at most T_cop, it is
// hidden. With T_com = 4 + 4 on a link that carries both directions at once, the busier direction
// is the bound (docs/ALGORITHMS.md, section 8); equation 2 would give (3 + 8) / 2.
TEST(Model, OdsgdTakesTheExchangeOffThePath) {
  StepCosts costs = OneChunk(1, 2, 1);
  costs.pace.lag = 1;
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3, 1e-9);
  costs = OneChunk(1, 4, 4);
  costs.pace.lag = 1;
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), (3.0 + 8) / 2, 1e-9);
  // Of two workers the up-link alone is busy for 8 of every step.
  costs = OneChunk(2, 4, 1);
  costs.pace.lag = 1;
  EXPECT_NEAR(StepOf(costs, 2, Link(1)), 8, 1e-9);
}

TEST(Model, LocalStepsSpreadAnExchange) {
  StepCosts costs = OneChunk(1, 2, 1);
  costs.pace.push = Pace::Push::kAfterCompute;
  costs.pace.period = 4;
  costs.pace.local_s = 0.5;
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + 0.5 + 3.0 / 4, 1e-9);
}

TEST(Model, ElasticPushesTravelWhileTheGradientIsComputed) {
  StepCosts costs = OneChunk(1, 2, 2);
  costs.pace.push = Pace::Push::kBeforeCompute;
  costs.pace.period = 4;
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + 1.0 / 4, 1e-9);
}

TEST(Model, OnePartAStepIsExchangedInTurn) {
  StepCosts costs = OneChunk(1, 1, 1);
  costs.buckets.push_back(costs.buckets[0]);
  costs.buckets[1].chunks[0].push_bytes = 3 * kMega;
  costs.pace.push = Pace::Push::kAfterCompute;
  costs.pace.one_bucket = true;
  EXPECT_NEAR(StepOf(costs, 1, Link(1)), 3 + ((1 + 1) + (3 + 1)) / 2.0, 1e-9);
}

// Without rounds nobody waits for the others: the first two pushes are answered one after the
// other, from then on the two workers are apart and each has link and lane to itself.
TEST(Model, WithoutRoundsEveryPushIsAnsweredAtOnce) {
  StepCosts costs = OneChunk(2, 0.1, 0.1);
  costs.buckets[0].chunks[0].close_s = 0.25;
  costs.pace.rounds = false;
  EXPECT_NEAR(StepOf(costs, 2, Link(1)), 3 + 0.1 + 0.25 + 0.1, 1e-9);
}

TEST(Model, BackupWorkersAreNotWaitedFor) {
  StepCosts costs = OneChunk(2, 2, 1);
  costs.pace.enough = 1;
  EXPECT_LE(StepOf(costs, 2, Link(1)), 3 + 4 + 2);
}

TEST(Model, ProcessesOnOneMachineShareItsCores) {
  StepCosts costs = OneChunk(2, 2, 1);
  costs.threads = 1;
  Network network = Link(1);
  EXPECT_NEAR(StepOf(costs, 2, network), 3 + 4 + 2, 1e-9);
  network.cores_shared = 1;
  EXPECT_NEAR(StepOf(costs, 2, network), 2 * 3 + 4 + 2, 1e-9);
  costs.threads = 0;  // a wait takes no core
  EXPECT_NEAR(StepOf(costs, 2, network), 3 + 4 + 2, 1e-9);
}

TEST(Model, MessagesAndHopsTakeTheirTime) {
  Profile profile;
  profile.message_s = 0.01;
  profile.message_cpu_s = 0.004;
  profile.hop_s = 0.001;
  // Two messages; hops to the coder, to the net thread, to the compute thread.
  EXPECT_NEAR(StepOf(OneChunk(1, 2, 1), 1, Link(1), profile), 3 + 2 + 1 + 2 * 0.01 + 3 * 0.001,
              1e-9);
}

// While the sums of the first bucket come down, from 1.1 to 4.1, the second's scalers wait behind
// what the link has in its queue.
TEST(Model, ScalersWaitInTheQueueOfABusyLink) {
  StepCosts costs = OneChunk(1, 0.1, 3);
  costs.buckets[0].ready_s = 1;
  BucketCost& second = costs.buckets.emplace_back();
  second.ready_s = 3;
  second.scale_bytes = second.scaled_bytes = 1;
  second.chunks.push_back({.push_bytes = 2 * kMega, .sum_bytes = 1 * kMega});
  Network network = Link(1);
  EXPECT_NEAR(StepOf(costs, 1, network), 3 + 2 + 1, 1e-4);
  network.queue_s = 0.05;
  EXPECT_NEAR(StepOf(costs, 1, network), 3 + 0.05 + 2 + 1, 1e-4);
}

TEST(Model, IsAFunctionOfItsInput) {
  StepCosts costs = OneChunk(3, 2, 1);
  costs.buckets[0].chunks.push_back(costs.buckets[0].chunks[0]);
  const double first = StepOf(costs, 3, Link(0.37));
  EXPECT_EQ(first, StepOf(costs, 3, Link(0.37)));
}

}  // namespace
}  // namespace tern::tools
