// Tests of simulated steps against arithmetic by hand. Seconds and bytes are round numbers: a link
// of 8 / kPayloadShare Mbit/s carries 1e6 bytes per second. Credit is how many bytes a worker may
// have pushed without an answer. A lane is a data socket of a server.
#include "tools/forecast/step_simulation.h"

#include <gtest/gtest.h>

namespace tern::tools {
namespace {

constexpr double kMegabyte = 1e6;

Network NetworkWithServerLink(double megabytes_per_s) {
  Network network;
  network.server_mbit = 8 * megabytes_per_s / kPayloadShare;
  return network;
}

// The costs of a step whose compute takes 3 s (a wait), and whose gradients are one bucket (tensors
// pushed together) of one chunk (encoded and sent by itself), ready at the end of the compute.
StepCosts CostsOfOneChunk(uint32_t workers, double push_mb, double sum_mb) {
  StepCosts costs;
  costs.compute_s = 3;
  costs.pattern.quorum = workers;
  costs.lane_counts = {1};
  costs.credit_bytes = 1e12;
  BucketCost& bucket = costs.buckets.emplace_back();
  bucket.ready_s = 3;
  bucket.chunks.push_back({.push_bytes = push_mb * kMegabyte, .sum_bytes = sum_mb * kMegabyte});
  return costs;
}

double StepSecondsOf(const StepCosts& costs, uint32_t workers, const Network& network,
                     const Profile& profile = {}) {
  const auto forecast = SimulateStep(costs, profile, workers, network);
  EXPECT_TRUE(forecast.ok()) << forecast.status().message();
  return forecast.ok() ? forecast->step_s : -1;
}

TEST(StepSimulation, OneWorkerWaitsForItsPushAndItsAnswer) {
  const auto forecast = SimulateStep(CostsOfOneChunk(1, 2, 1), {}, 1, NetworkWithServerLink(1));
  ASSERT_TRUE(forecast.ok());
  EXPECT_NEAR(forecast->step_s, 3 + 2 + 1, 1e-9);
  EXPECT_NEAR(forecast->compute_s, 3, 1e-9);
  EXPECT_NEAR(forecast->exchange_s, 3, 1e-9);
  EXPECT_NEAR(forecast->busy_s, 3, 1e-9);
}

TEST(StepSimulation, WorkersShareTheServersLink) {
  EXPECT_NEAR(StepSecondsOf(CostsOfOneChunk(4, 2, 1), 4, NetworkWithServerLink(1)),
              3 + 4 * 2 + 4 * 1, 1e-9);
}

TEST(StepSimulation, AWorkersOwnLinkIsALimit) {
  Network network = NetworkWithServerLink(4);
  network.worker_mbit = network.server_mbit / 8;  // 0.5 MB/s each, 2 MB/s together
  EXPECT_NEAR(StepSecondsOf(CostsOfOneChunk(4, 2, 1), 4, network), 3 + 4 + 2, 1e-9);
}

TEST(StepSimulation, WhatADaemonSendsAtMostIsALimit) {
  Network network = NetworkWithServerLink(4);
  network.worker_send_mbit = network.server_mbit / 8;  // 2 MB/s together, of pushes alone
  EXPECT_NEAR(StepSecondsOf(CostsOfOneChunk(4, 2, 1), 4, network), 3 + 4 + 1, 1e-9);
  network.server_send_mbit = network.server_mbit / 4;  // 1 MB/s of sums
  EXPECT_NEAR(StepSecondsOf(CostsOfOneChunk(4, 2, 1), 4, network), 3 + 4 + 4, 1e-9);
}

TEST(StepSimulation, AddsUpEveryKindOfWork) {
  StepCosts costs = CostsOfOneChunk(2, 2, 1);
  BucketCost& bucket = costs.buckets[0];
  bucket.prepare_s = 0.1;
  bucket.apply_s = 0.2;
  bucket.chunks[0].encode_s = 0.3;
  bucket.chunks[0].add_s = 0.04;  // the server adds the chunks of two workers one after the other
  bucket.chunks[0].close_s = 0.5;
  EXPECT_NEAR(StepSecondsOf(costs, 2, NetworkWithServerLink(1)),
              3 + 0.1 + 0.3 + 4 + 2 * 0.04 + 0.5 + 2 + 0.2, 1e-9);
}

TEST(StepSimulation, PullsBeforeItPushes) {
  StepCosts costs = CostsOfOneChunk(2, 2, 1);
  costs.pattern.has_rounds = false;
  costs.pattern.push_time = StepPattern::PushTime::kAfterCompute;
  BucketCost& bucket = costs.buckets[0];
  bucket.apply_s = 0.2;
  bucket.chunks[0].close_s = 0.5;
  const double once = StepSecondsOf(costs, 1, NetworkWithServerLink(1));
  EXPECT_NEAR(once, 3 + 2 + 0.5 + 1 + 0.2, 1e-6);
  costs.pattern.pulls_first = true;
  costs.pattern.term_s = 0.05;
  bucket.chunks[0].pull_s = 0.1;
  const auto forecast = SimulateStep(costs, {}, 1, NetworkWithServerLink(1));
  ASSERT_TRUE(forecast.ok()) << forecast.status().message();
  const double pull_s = 0.1 + 1 + 0.2 + 0.05;
  EXPECT_NEAR(forecast->step_s, once + pull_s, 1e-6);
  EXPECT_NEAR(forecast->compute_s, 3, 1e-6);
  EXPECT_NEAR(forecast->exchange_s, pull_s + 2 + 0.5 + 1, 1e-6);
}

// Two chunks of 2 MB up and 1 MB down: the first sum travels while the second chunk is pushed, and
// the second sum arrives 1 s after that: 2 + 2 + 1.
TEST(StepSimulation, ChunksTravelInBothDirectionsAtOnce) {
  StepCosts costs = CostsOfOneChunk(1, 2, 1);
  costs.buckets[0].chunks.push_back(costs.buckets[0].chunks[0]);
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 2 + 2 + 1, 1e-9);
}

TEST(StepSimulation, ABucketIsPushedDuringBackward) {
  StepCosts costs = CostsOfOneChunk(1, 2, 1);
  costs.buckets.insert(costs.buckets.begin(), costs.buckets[0]);
  // The first bucket travels up from 1 to 3 s and down until 4 s, the second up from 3 to 5 s and
  // down until 6 s.
  costs.buckets[0].ready_s = 1;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 6, 1e-9);
  costs.pattern.push_time = StepPattern::PushTime::kAfterCompute;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 2 + 2 + 1, 1e-9);
}

// TCP's acknowledgements, here a tenth of the bytes, travel in the opposite direction: they cost
// nothing if that direction is idle, and their own time if it is busy.
TEST(StepSimulation, AcknowledgementsUseTheLink) {
  Network network = NetworkWithServerLink(1);
  network.ack_bytes_per_byte = 0.1;
  EXPECT_NEAR(StepSecondsOf(CostsOfOneChunk(1, 2, 1), 1, network), 3 + 2 + 1, 1e-9);
  StepCosts costs = CostsOfOneChunk(1, 2, 2);
  for (int i = 0; i < 9; ++i) costs.buckets[0].chunks.push_back(costs.buckets[0].chunks[0]);
  const double step_s = StepSecondsOf(
      costs, 1, network);  // ten chunks: 20 MB up, and the acknowledgements of nine sums
  EXPECT_NEAR(step_s, 3 + 20 + 9 * 0.2 + 2, 0.3);
}

// The first bucket's answer arrives 2 s before the second's. So the first bucket's update of 1.5 s
// is hidden if buckets are applied one by one.
TEST(StepSimulation, BucketsAreAppliedAsTheirAnswersArrive) {
  StepCosts costs = CostsOfOneChunk(1, 2, 1);
  costs.buckets[0].apply_s = 1.5;
  costs.buckets.push_back(costs.buckets[0]);
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 2 + 2 + 1 + 1.5 + 1.5, 1e-9);
  costs.pattern.applies_by_bucket = true;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 2 + 2 + 1 + 1.5, 1e-9);
}

// The second bucket has the gradients of the net's first layers.
TEST(StepSimulation, TheNextForwardWaitsForTheBucketsThatItNeeds) {
  StepCosts costs = CostsOfOneChunk(1, 2, 1);
  costs.buckets.push_back(costs.buckets[0]);
  costs.buckets[0].need_s = 1;
  costs.pattern.applies_by_bucket = true;
  costs.pattern.waits_in_forward = true;
  // The buckets travel up from 3 to 5 s and from 5 to 7 s, and down until 6 s and 8 s. The next
  // forward waits from its beginning until 8 s.
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 2 + 2 + 1, 1e-9);
  // The first bucket travels up from 1 to 3 s and down until 4 s, the second up from 3 to 5 s and
  // down until 6 s.
  costs.buckets[0].ready_s = 1;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 2 + 1, 1e-9);
  // Three chunks in the first bucket, and credit for two chunks at a time: two chunks have their
  // answers at 6 s and 8 s. The second bucket overtakes the third chunk and has its answer at 10 s,
  // the third chunk at 12 s. The forward waits until 10 s, computes for 1 s, and waits until 12 s.
  costs.buckets[0].ready_s = 3;
  for (int i = 0; i < 2; ++i) costs.buckets[0].chunks.push_back(costs.buckets[0].chunks[0]);
  costs.credit_bytes = 4.5 * kMegabyte;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 4 * 2 + 1 - 1, 1e-9);
  costs.pattern.waits_in_forward = false;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 4 * 2 + 1, 1e-9);
  // With credit for one chunk, the second bucket does not overtake. Whatever the credit is, the
  // first unanswered push of a lane, in the order of buckets and chunks, may be sent. So workers
  // that get their scalers in different orders cannot block each other.
  costs.pattern.waits_in_forward = true;
  costs.buckets[0].chunks.pop_back();
  costs.credit_bytes = 2.5 * kMegabyte;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 3 * (2 + 1), 1e-9);
}

TEST(StepSimulation, SharedScalersTakeARoundTrip) {
  StepCosts costs = CostsOfOneChunk(1, 2, 1);
  costs.buckets[0].scale_bytes = costs.buckets[0].scaled_bytes = 0.25 * kMegabyte;
  Network network = NetworkWithServerLink(1);
  network.latency_s = 0.125;
  EXPECT_NEAR(StepSecondsOf(costs, 1, network), 3 + (2 * 0.25 + 2 * 0.125) + (2 + 1 + 2 * 0.125),
              1e-9);
}

TEST(StepSimulation, CreditDelaysPushes) {
  StepCosts costs = CostsOfOneChunk(1, 1, 1);
  for (int i = 0; i < 3; ++i) costs.buckets[0].chunks.push_back(costs.buckets[0].chunks[0]);
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 4 + 1, 1e-9);
  costs.credit_bytes = 1.5 * kMegabyte;  // one unanswered chunk at a time
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 4 * 2, 1e-9);
}

TEST(StepSimulation, EveryShardAddsALink) {
  StepCosts costs = CostsOfOneChunk(2, 2, 1);
  costs.buckets[0].chunks.push_back(costs.buckets[0].chunks[0]);
  EXPECT_NEAR(StepSecondsOf(costs, 2, NetworkWithServerLink(1)), 3 + 4 + 4 + 2, 1e-9);
  costs.lane_counts = {1, 1};
  costs.buckets[0].chunks[1].shard = 1;
  EXPECT_NEAR(StepSecondsOf(costs, 2, NetworkWithServerLink(1)), 3 + 4 + 2, 1e-9);
}

// OD-SGD: a step waits for the exchange before its own. With a compute of T_cop = 3 s, an exchange
// of T_com = 2 + 1 s is hidden, and one of 4 + 4 s is not: by equation 2 the step takes (3 + 8) /
// 2. If one direction of the link is busy for longer, that is the bound (docs/ALGORITHMS.md,
// section 8).
TEST(StepSimulation, OdsgdHidesTheExchange) {
  StepCosts costs = CostsOfOneChunk(1, 2, 1);
  costs.pattern.lag = 1;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3, 1e-9);
  costs = CostsOfOneChunk(1, 4, 4);
  costs.pattern.lag = 1;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), (3.0 + 8) / 2, 1e-9);
  // With two workers the up-link is busy for 8 s of every step.
  costs = CostsOfOneChunk(2, 4, 1);
  costs.pattern.lag = 1;
  EXPECT_NEAR(StepSecondsOf(costs, 2, NetworkWithServerLink(1)), 8, 1e-9);
}

TEST(StepSimulation, LocalStepsShareOneExchange) {
  StepCosts costs = CostsOfOneChunk(1, 2, 1);
  costs.pattern.push_time = StepPattern::PushTime::kAfterCompute;
  costs.pattern.period = 4;
  costs.pattern.local_s = 0.5;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 0.5 + 3.0 / 4, 1e-9);
}

// Fragments of pqasgd: two buckets take turns, one every second step. With `lag`, an exchange of
// 2 + 1 s travels during the two steps of 3 + 0.5 s that follow.
TEST(StepSimulation, FragmentsTravelDuringLocalSteps) {
  StepCosts costs = CostsOfOneChunk(1, 2, 1);
  costs.buckets.push_back(costs.buckets[0]);
  costs.pattern.push_time = StepPattern::PushTime::kAfterCompute;
  costs.pattern.sends_one_bucket = true;
  costs.pattern.period = 2;
  costs.pattern.local_s = 0.5;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 0.5 + 3.0 / 2, 1e-9);
  costs.pattern.lag = 1;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 0.5, 1e-9);
}

TEST(StepSimulation, ElasticPushesTravelDuringTheCompute) {
  StepCosts costs = CostsOfOneChunk(1, 2, 2);
  costs.pattern.push_time = StepPattern::PushTime::kBeforeCompute;
  costs.pattern.period = 4;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + 1.0 / 4, 1e-9);
}

TEST(StepSimulation, OneBucketPerStepIsExchangedInTurn) {
  StepCosts costs = CostsOfOneChunk(1, 1, 1);
  costs.buckets.push_back(costs.buckets[0]);
  costs.buckets[1].chunks[0].push_bytes = 3 * kMegabyte;
  costs.pattern.push_time = StepPattern::PushTime::kAfterCompute;
  costs.pattern.sends_one_bucket = true;
  EXPECT_NEAR(StepSecondsOf(costs, 1, NetworkWithServerLink(1)), 3 + ((1 + 1) + (3 + 1)) / 2.0,
              1e-9);
}

// Without rounds no worker waits for another one. The first two pushes are answered one after the
// other; from then on the two workers push at different times, and neither delays the other.
TEST(StepSimulation, WithoutRoundsEveryPushIsAnsweredAtOnce) {
  StepCosts costs = CostsOfOneChunk(2, 0.1, 0.1);
  costs.buckets[0].chunks[0].close_s = 0.25;
  costs.pattern.has_rounds = false;
  EXPECT_NEAR(StepSecondsOf(costs, 2, NetworkWithServerLink(1)), 3 + 0.1 + 0.25 + 0.1, 1e-9);
}

TEST(StepSimulation, DoesNotWaitForBackupWorkers) {
  StepCosts costs = CostsOfOneChunk(2, 2, 1);
  costs.pattern.quorum = 1;
  EXPECT_LE(StepSecondsOf(costs, 2, NetworkWithServerLink(1)), 3 + 4 + 2);
}

TEST(StepSimulation, ProcessesOnOneMachineShareItsCores) {
  StepCosts costs = CostsOfOneChunk(2, 2, 1);
  costs.threads = 1;
  Network network = NetworkWithServerLink(1);
  EXPECT_NEAR(StepSecondsOf(costs, 2, network), 3 + 4 + 2, 1e-9);
  network.cores_shared = 1;
  EXPECT_NEAR(StepSecondsOf(costs, 2, network), 2 * 3 + 4 + 2, 1e-9);
  costs.threads = 0;  // the compute is only a wait, which uses no core
  EXPECT_NEAR(StepSecondsOf(costs, 2, network), 3 + 4 + 2, 1e-9);
}

TEST(StepSimulation, MessagesAndHopsTakeTime) {
  Profile profile;
  profile.message_s = 0.01;
  profile.message_cpu_s = 0.004;
  profile.hop_s = 0.001;
  // The costs are those of two messages and of three handovers between threads: to the coding
  // thread, to the network thread and to the compute thread.
  EXPECT_NEAR(StepSecondsOf(CostsOfOneChunk(1, 2, 1), 1, NetworkWithServerLink(1), profile),
              3 + 2 + 1 + 2 * 0.01 + 3 * 0.001, 1e-9);
}

// The sums of the first bucket travel down from 1.1 to 4.1 s. The scalers of the second bucket
// meanwhile wait in the link's queue.
TEST(StepSimulation, ScalersWaitInTheQueueOfABusyLink) {
  StepCosts costs = CostsOfOneChunk(1, 0.1, 3);
  costs.buckets[0].ready_s = 1;
  BucketCost& second_bucket = costs.buckets.emplace_back();
  second_bucket.ready_s = 3;
  second_bucket.scale_bytes = second_bucket.scaled_bytes = 1;
  second_bucket.chunks.push_back({.push_bytes = 2 * kMegabyte, .sum_bytes = 1 * kMegabyte});
  Network network = NetworkWithServerLink(1);
  EXPECT_NEAR(StepSecondsOf(costs, 1, network), 3 + 2 + 1, 1e-4);
  network.queue_s = 0.05;
  EXPECT_NEAR(StepSecondsOf(costs, 1, network), 3 + 0.05 + 2 + 1, 1e-4);
}

TEST(StepSimulation, SameInputGivesTheSameForecast) {
  StepCosts costs = CostsOfOneChunk(3, 2, 1);
  costs.buckets[0].chunks.push_back(costs.buckets[0].chunks[0]);
  const double first_step_s = StepSecondsOf(costs, 3, NetworkWithServerLink(0.37));
  EXPECT_EQ(first_step_s, StepSecondsOf(costs, 3, NetworkWithServerLink(0.37)));
}

}  // namespace
}  // namespace tern::tools
