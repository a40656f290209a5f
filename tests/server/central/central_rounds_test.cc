// Tests of servers that hold the weights. Algorithms with rounds must follow their equations in
// double precision. Algorithms without rounds must equal synchronous SGD or ASGD if their settings
// make them equivalent. The weights that servers send to workers may be coded (pull codec).
#include "server/central/central_rounds.h"

#include <gmock/gmock.h>

#include <cstring>

#include "server/rules/clock_rules.h"
#include "tests/server/central/central_job.h"

namespace tern::server {
namespace {

using testing::HasSubstr;

constexpr uint32_t kNumWorkers = 4;
using Values = std::vector<double>;

// Returns the gradients that these workers compute at the weights w in `round`.
template <typename Float>
std::vector<std::vector<Float>> GradientsOf(const std::vector<uint32_t>& ranks, uint64_t round,
                                            const std::vector<Float>& w) {
  std::vector<std::vector<Float>> gradients;
  for (uint32_t rank : ranks) gradients.push_back(GradientAt(rank, round, w));
  return gradients;
}

Values MeanOf(const std::vector<Values>& vectors) {
  Values mean(vectors[0].size());
  for (const Values& values : vectors) {
    for (size_t k = 0; k < mean.size(); ++k)
      mean[k] += values[k] / static_cast<double>(vectors.size());
  }
  return mean;
}

TEST(CentralRounds, FollowSynchronousSgdWithMomentumAndDecay) {
  const auto job =
      MakeCentralJob({"train.algorithm=ssgd", "train.optimizer.name=momentum",
                      "train.optimizer.momentum=0.9", "train.weight_decay.rate=0.02",
                      "train.weight_decay.where=local", "train.weight_decay.biases=true",
                      "train.weight_decay.rules=[{tensors: hidden.weight, rate: 0.3}]"});
  const uint64_t hidden_weights = job->table.parameters[0].count;
  RoundDrill drill(*job);
  Values w = ToDoubles(InitialWeights(*job)), v(w.size());
  const std::vector<uint32_t> ranks = {2, 0, 3, 1};
  for (uint64_t round = 1; round <= 40; ++round) {
    drill.MakeRound(GradientsOf(ranks, round, drill.weights()), ranks);
    const Values g = MeanOf(GradientsOf(ranks, round, w));
    const double rate = 0.1 * std::pow(0.8, (round - 1) / 5);
    for (size_t k = 0; k < w.size(); ++k) {
      v[k] = 0.9 * v[k] + (g[k] + (k < hidden_weights ? 0.3 : 0.02) * w[k]);
      w[k] -= rate * v[k];
    }
    ASSERT_LT(RelativeDistance(drill.weights(), w), 1e-5) << "round " << round;
  }
  EXPECT_EQ(drill.rounds_of_chunks()[0]->round(), 40u);
}

TEST(CentralRounds, FollowRmsprop) {
  const auto job = MakeCentralJob({"train.algorithm=ssgd", "train.optimizer.name=rmsprop",
                                   "train.optimizer.momentum=0.5", "train.optimizer.rho=0.8",
                                   "train.optimizer.epsilon=0.1"});
  RoundDrill drill(*job);
  Values w = ToDoubles(InitialWeights(*job)), v(w.size()), square(w.size());
  const std::vector<uint32_t> ranks = {0, 1, 2, 3};
  for (uint64_t round = 1; round <= 30; ++round) {
    drill.MakeRound(GradientsOf(ranks, round, drill.weights()), ranks);
    const Values g = MeanOf(GradientsOf(ranks, round, w));
    const double rate = 0.1 * std::pow(0.8, (round - 1) / 5);
    for (size_t k = 0; k < w.size(); ++k) {
      square[k] = 0.8 * square[k] + 0.2 * g[k] * g[k];
      v[k] = 0.5 * v[k] + rate * g[k] / std::sqrt(square[k] + 0.1);
      w[k] -= v[k];
    }
    ASSERT_LT(RelativeDistance(drill.weights(), w), 1e-5) << "round " << round;
  }
}

TEST(CentralRounds, FollowAdam) {
  const auto job = MakeCentralJob({"train.algorithm=ssgd", "train.optimizer.name=adam",
                                   "train.optimizer.beta1=0.8", "train.optimizer.beta2=0.9",
                                   "train.optimizer.epsilon=0.1"});
  RoundDrill drill(*job);
  Values w = ToDoubles(InitialWeights(*job)), mean(w.size()), square(w.size());
  const std::vector<uint32_t> ranks = {0, 1, 2, 3};
  for (uint64_t round = 1; round <= 30; ++round) {
    drill.MakeRound(GradientsOf(ranks, round, drill.weights()), ranks);
    const Values g = MeanOf(GradientsOf(ranks, round, w));
    const double rate = 0.1 * std::pow(0.8, (round - 1) / 5) / (1 - std::pow(0.8, round));
    for (size_t k = 0; k < w.size(); ++k) {
      mean[k] = 0.8 * mean[k] + 0.2 * g[k];
      square[k] = 0.9 * square[k] + 0.1 * g[k] * g[k];
      w[k] -= rate * mean[k] / (std::sqrt(square[k] / (1 - std::pow(0.9, round))) + 0.1);
    }
    ASSERT_LT(RelativeDistance(drill.weights(), w), 1e-5) << "round " << round;
  }
}

TEST(CentralRounds, DivideByTheNumberOfContributors) {
  const auto job = MakeCentralJob({"train.algorithm=ssgd"});
  RoundDrill drill(*job);
  Values w = ToDoubles(InitialWeights(*job));
  RandomRanks order(2);
  for (uint64_t round = 1; round <= 30; ++round) {
    std::vector<uint32_t> contributors = {0, 1, 2, 3};
    contributors.erase(contributors.begin() + order.Next(kNumWorkers));
    if (round % 3 == 0) contributors.pop_back();
    drill.MakeRound(GradientsOf(contributors, round, drill.weights()), contributors);
    const Values g = MeanOf(GradientsOf(contributors, round, w));
    for (size_t k = 0; k < w.size(); ++k) w[k] -= 0.1 * std::pow(0.8, (round - 1) / 5) * g[k];
    ASSERT_LT(RelativeDistance(drill.weights(), w), 1e-5) << "round " << round;
  }
}

// Elastic averaging (EASGD): in each round, each worker's weights and the central weights move
// towards each other by alpha times their difference before the round.
TEST(CentralRounds, HaveWeightsThatAreNotFiniteAfterASumThatOverflows) {
  const auto job = MakeCentralJob({"train.algorithm=ssgd", "exchange.codec=fp32"});
  const protocol::Chunk& chunk = *ChunksOf(*job)[0];
  const auto chunk_rounds =
      std::move(*CentralRounds::Make(*job, chunk, InitialWeights(*job), RateOf(*job)));
  const auto cell = chunk_rounds->DescribeCell(protocol::MakeCellsOfLane(job->plan, 0, 1)[0]);
  const auto sum = cell.open(1);
  const std::vector<float> huge_gradient(job->table.total, 2e38f);
  for (const uint32_t rank : {0, 1})
    ASSERT_TRUE(sum->Add(rank, EncodePush(*job, chunk, huge_gradient, rank, 1)).ok());
  sum->Close();
  EXPECT_EQ(chunk_rounds->round(), 1u);
  for (const float w : chunk_rounds->central().weights()) ASSERT_TRUE(std::isnan(w));
}

TEST(CentralRounds, FollowElasticAveraging) {
  const auto job = MakeCentralJob({"train.algorithm=easgd", "train.easgd.alpha=0.1"});
  RoundDrill drill(*job);
  Values centre = ToDoubles(InitialWeights(*job));
  std::vector<std::vector<float>> x(kNumWorkers, InitialWeights(*job));
  std::vector<Values> exact_x(kNumWorkers, centre);
  for (uint64_t round = 1; round <= 30; ++round) {
    std::vector<uint32_t> ranks = {0, 1, 2, 3};
    if (round % 3 == 0) ranks.pop_back();
    for (uint32_t rank : ranks) {  // Each worker of the round makes a local step.
      const auto g = GradientAt(rank, round, x[rank]);
      const Values exact_gradient = GradientAt(rank, round, exact_x[rank]);
      for (size_t k = 0; k < centre.size(); ++k) {
        x[rank][k] -= 0.1f * g[k];
        exact_x[rank][k] -= 0.1 * exact_gradient[k];
      }
    }
    const std::vector<float> weights_before = drill.weights();
    drill.MakeRound(x, ranks);
    const Values old_centre = centre;
    for (uint32_t rank : ranks) {
      for (size_t k = 0; k < old_centre.size(); ++k) {
        x[rank][k] -= 0.1f * (x[rank][k] - weights_before[k]);
        const double difference = exact_x[rank][k] - old_centre[k];
        exact_x[rank][k] -= 0.1 * difference;
        centre[k] += 0.1 * difference;
      }
      ASSERT_LT(RelativeDistance(x[rank], exact_x[rank]), 1e-5) << "round " << round;
    }
    ASSERT_LT(RelativeDistance(drill.weights(), centre), 1e-5) << "round " << round;
  }
  EXPECT_GT(RelativeDistance(InitialWeights(*job), centre), 0.3);
}

// Returns the weights after `num_rounds` rounds of synchronous SGD without momentum.
std::vector<float> WeightsAfterSynchronousSgd(uint64_t num_rounds) {
  const auto job = MakeCentralJob({"train.algorithm=ssgd"});
  RoundDrill drill(*job);
  const std::vector<uint32_t> ranks = {0, 1, 2, 3};
  for (uint64_t round = 1; round <= num_rounds; ++round)
    drill.MakeRound(GradientsOf(ranks, round, drill.weights()), ranks);
  return drill.weights();
}

TEST(Limits, SspWithBoundZeroAndAveragedPushesIsSynchronousSgd) {
  const auto job = MakeCentralJob(
      {"train.algorithm=ssp", "train.ssp.staleness=0", "train.ssp.push_weight=one_over_workers"});
  ClockDrill drill(*job);
  RandomRanks order(7);
  for (uint64_t clock = 1; clock <= 30; ++clock) {
    const uint32_t first_rank = order.Next(kNumWorkers);
    const std::vector<float> w = drill.weights_of(0);
    for (uint32_t i = 0; i < kNumWorkers; ++i) {
      const uint32_t rank = (first_rank + 3 * i) % kNumWorkers;
      drill.Push(rank, GradientAt(rank, clock, w));
    }
  }
  EXPECT_LT(RelativeDistance(drill.weights_of(2), ToDoubles(WeightsAfterSynchronousSgd(30))), 1e-6);
}

TEST(Limits, SoftsyncOfOneGroupPulledAfterTheLastPushIsSynchronousSgd) {
  const auto job = MakeCentralJob({"train.algorithm=softsync", "train.softsync.n=1"});
  ClockDrill drill(*job);
  for (uint64_t clock = 1; clock <= 30; ++clock) {
    const std::vector<float> w = drill.weights_of(0);
    for (uint32_t rank = 0; rank < kNumWorkers; ++rank)
      drill.Push(rank, GradientAt(rank, clock, w));
    for (uint32_t rank = 0; rank < kNumWorkers; ++rank) drill.Pull(rank);
  }
  EXPECT_LT(RelativeDistance(drill.weights_of(1), ToDoubles(WeightsAfterSynchronousSgd(30))), 1e-6);
}

TEST(Limits, DelayCompensationWithLambdaZeroIsAsgdBitForBit) {
  const auto asgd_job = MakeCentralJob({"train.algorithm=asgd", "train.optimizer.name=momentum"});
  for (const std::string name : {"dcasgd_c", "dcasgd_a"}) {
    const auto job = MakeCentralJob({"train.algorithm=" + name, "train." + name + ".lambda=0",
                                     "train.optimizer.name=momentum"});
    ClockDrill drill(*job);
    ClockDrill asgd_drill(*asgd_job);
    RandomRanks order(9);
    for (int push = 0; push < 40; ++push) {
      const uint32_t rank = order.Next(kNumWorkers);
      drill.Push(rank, GradientAt(rank, drill.clock(rank), drill.weights_of(rank)));
      asgd_drill.Push(rank, GradientAt(rank, asgd_drill.clock(rank), asgd_drill.weights_of(rank)));
      ASSERT_EQ(drill.weights_of(rank), asgd_drill.weights_of(rank)) << name << " push " << push;
    }
  }
}

TEST(Pull, CodesWeightsWithThePullCodec) {
  const auto job = MakeCentralJob({"train.algorithm=ssgd", "exchange.pull_codec=fp16"});
  RoundDrill drill(*job);
  const auto pull = drill.rounds_of_chunks()[0]->DescribeCell({}).pull;
  EXPECT_TRUE(pull(false).is_fp32) << "workers have the initial weights as they are";
  const std::vector<uint32_t> ranks = {0, 1, 2, 3};
  for (uint64_t round = 1; round <= 5; ++round)
    drill.MakeRound(GradientsOf(ranks, round, drill.weights()), ranks);
  EXPECT_FALSE(pull(false).is_fp32);
  EXPECT_EQ(drill.answer_bytes(), 2 * job->table.total);
  size_t i = 0, num_rounded = 0;
  std::vector<float> exact_weights(job->table.total);
  for (const auto& rounds : drill.rounds_of_chunks()) {
    const auto w = rounds->central().weights();
    std::copy(w.begin(), w.end(),
              exact_weights.begin() + static_cast<long>(rounds->central().chunk().begin));
  }
  for (; i < exact_weights.size(); ++i) num_rounded += exact_weights[i] != drill.weights()[i];
  EXPECT_GT(num_rounded, 0u);  // The server sends rounded weights, but its own weights are exact.
  EXPECT_LT(RelativeDistance(drill.weights(), ToDoubles(exact_weights)), 1e-3);
}

// The server sends coded differences. Each difference contains the coding error of the one before,
// so errors do not add up. They shrink as the differences shrink.
TEST(Pull, AddsTheCodingErrorToTheNextDifference) {
  const auto job = MakeCentralJob({"train.algorithm=ssgd", "exchange.pull_codec=fp16",
                                   "exchange.pull=changes", "train.schedule.gamma=0.3"});
  RoundDrill drill(*job);
  const std::vector<uint32_t> ranks = {0, 1, 2, 3};
  for (uint64_t round = 1; round <= 40; ++round)
    drill.MakeRound(GradientsOf(ranks, round, drill.weights()), ranks);
  EXPECT_EQ(drill.answer_bytes(), 2 * job->table.total);
  std::vector<float> exact_weights(job->table.total);
  for (const auto& rounds : drill.rounds_of_chunks()) {
    const auto w = rounds->central().weights();
    std::copy(w.begin(), w.end(),
              exact_weights.begin() + static_cast<long>(rounds->central().chunk().begin));
  }
  EXPECT_LT(RelativeDistance(drill.weights(), ToDoubles(exact_weights)), 1e-6);
}

TEST(Pull, SendsADifferenceOnlyToAWorkerThatHasThePreviousWeights) {
  const auto job = MakeCentralJob(
      {"train.algorithm=dcasgd_c", "exchange.pull_codec=fp16", "exchange.pull=changes"});
  ClockDrill drill(*job);
  const auto push = [&](uint32_t rank) {
    drill.Push(rank, GradientAt(rank, drill.clock(rank), drill.weights_of(rank)));
  };
  for (int i = 0; i < 3; ++i) push(0);
  EXPECT_FALSE(drill.answers_are_complete());
  push(1);  // Before this push, worker 1 has the initial weights.
  EXPECT_FALSE(drill.answers_are_complete());
  EXPECT_EQ(drill.answer_bytes(), 2 * job->table.total);
  drill.Rejoin(2);  // Worker 2 gets complete weights.
  EXPECT_LT(RelativeDistance(drill.weights_of(1), ToDoubles(drill.weights_of(2))), 1e-3);
  drill.Rejoin(0);
  EXPECT_TRUE(drill.answers_are_complete());
  EXPECT_EQ(drill.answer_bytes(), 4 * job->table.total);
  push(0);
  EXPECT_FALSE(drill.answers_are_complete());
  const std::vector<float> weights_before = drill.weights_of(0);
  drill.Pull(0);
  EXPECT_LT(RelativeDistance(drill.weights_of(0), ToDoubles(weights_before)), 1e-3);
}

TEST(CentralChunk, RefusesCodesThatCannotBeReadAlone) {
  const auto job = MakeCentralJob({"train.algorithm=ssgd", "train.parameters=localized",
                                   "exchange.codec=ternary", "exchange.scaler=shared"});
  const auto chunk_or_error =
      CentralChunk::Make(*job, *ChunksOf(*job)[0], std::vector<float>(job->table.total));
  ASSERT_FALSE(chunk_or_error.ok());
  EXPECT_EQ(chunk_or_error.status().code(), Code::kBadJob);
  EXPECT_THAT(chunk_or_error.status().message(), HasSubstr("set exchange.scaler to per_worker"));
}

TEST(CentralChunk, RefusesAnOptimizerThatNeedsWholeTensorsWhereTheyAreCut) {
  const auto job = MakeCentralJob(
      {"train.algorithm=ssgd", "train.parameters=localized", "train.optimizer.name=lars"});
  size_t num_refused = 0;
  for (const protocol::Chunk* chunk : ChunksOf(*job)) {
    const auto chunk_or_error =
        CentralChunk::Make(*job, *chunk, std::vector<float>(job->table.total));
    if (chunk_or_error.ok()) continue;
    ++num_refused;
    EXPECT_THAT(chunk_or_error.status().message(),
                HasSubstr("set exchange.chunk_kib to at least 3"));
  }
  EXPECT_EQ(num_refused, ChunksOf(*job).size());  // Each chunk contains a cut tensor.
}

TEST(CentralChunk, TakesTernaryPushesByTheScalerOfTheirWorker) {
  const auto job = MakeCentralJob({"train.algorithm=asgd", "exchange.codec=ternary",
                                   "exchange.scaler=per_worker", "train.schedule.learning_rate=1",
                                   "train.schedule.name=fixed"});
  ClockDrill drill(*job);
  const std::vector<float> weights_before = drill.weights_of(0);
  const std::vector<float> g = GradientAt(0, 1, weights_before);
  drill.Push(0, g);
  double dot_product = 0, squared_norm = 0;
  for (size_t k = 0; k < g.size(); ++k) {
    dot_product += (weights_before[k] - drill.weights_of(0)[k]) * g[k];
    squared_norm += g[k] * g[k];
  }
  // The ratio is not exactly 1, because the code is random and clipping makes it biased.
  EXPECT_NEAR(dot_product / squared_norm, 1, 0.3);
}

TEST(CentralChunk, RefusesAPushThatIsNotFiniteAndKeepsItsWeights) {
  const auto job = MakeCentralJob({"train.algorithm=asgd"});
  auto rule = MakeClockRule(*job, *ChunksOf(*job)[0], InitialWeights(*job), RateOf(*job));
  ASSERT_TRUE(rule.ok());
  std::vector<float> values(job->table.total, 1);
  values[ChunksOf(*job)[0]->begin + 3] = std::nanf("");
  const Bytes invalid_push = EncodePush(*job, *ChunksOf(*job)[0], values, 0, 1);
  const Bytes payload_before = (*rule)->Pull(0, std::nullopt).payload;
  EXPECT_EQ((*rule)->Push(0, 0, invalid_push).code(), Code::kMismatch);
  EXPECT_EQ((*rule)->Push(0, 0, payload_before.Slice(0, payload_before.size() - 4)).code(),
            Code::kMismatch);
  EXPECT_EQ((*rule)->Pull(0, std::nullopt).payload, payload_before);
  EXPECT_EQ((*rule)->version(), 0u);
}

}  // namespace
}  // namespace tern::server
