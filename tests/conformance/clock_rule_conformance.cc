// A test suite for every clock rule. A clock rule is the server's part of an algorithm without
// rounds (asgd, dcasgd_a ...): it applies each worker's push to the weights at once. The suite
// tests what all rules must do; their equations are tested in tests/server/rules. It runs over all
// such algorithms, also new ones. A server answers a pull either with the weights or with their
// changes since the worker's last pull; every rule is tested with both.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "common/algorithm/algorithms.h"
#include "common/algorithm/facts.h"
#include "server/rules/clock_rules.h"
#include "tests/server/central/central_job.h"

namespace tern::server {
namespace {

using protocol::ClockCell;
using testing::Each;

constexpr int kNumPushes = 40;

struct RuleCase {
  std::string algorithm;
  std::string answer_contents;  // What answers to pulls contain: "weights" or "changes".
};

std::vector<RuleCase> AllCases() {
  std::vector<RuleCase> cases;
  for (const std::string& name : algorithm::AlgorithmsWithCloses(pb::AlgorithmTraits::every_push))
    for (const char* answer_contents : {"weights", "changes"})
      cases.push_back({name, answer_contents});
  return cases;
}

// Returns the exact state that a rule saves in checkpoints, by name.
std::map<std::string, std::string> SavedStateOf(ClockRule* rule) {
  SavedState saved;
  rule->AddState(&saved);
  std::map<std::string, std::string> state_by_name;
  for (const SavedState::Array& array : saved.arrays) {
    const auto* bytes = reinterpret_cast<const char*>(array.values.data());
    EXPECT_TRUE(
        state_by_name.emplace("array " + array.name, std::string(bytes, array.values.size_bytes()))
            .second)
        << "two arrays are named " << array.name;
  }
  for (const SavedState::Number& number : saved.numbers) {
    EXPECT_TRUE(
        state_by_name.emplace("number " + number.name, std::to_string(*number.value)).second)
        << "two numbers are named " << number.name;
  }
  return state_by_name;
}

std::vector<float> WeightsOf(const ClockRule& rule) {
  return {rule.weights().begin(), rule.weights().end()};
}

std::vector<uint8_t> ToVector(const Bytes& bytes) {
  return {bytes.span().begin(), bytes.span().end()};
}

// A drill runs server code and workers in one thread. This one has the workers' state, and one
// rule: that of the chunk (range of the model's elements) with the most segments (parts of
// tensors).
class RuleDrill {
 public:
  explicit RuleDrill(const setup::Setup& job) : job_(job), workers_(job.plan.workers) {
    for (const protocol::Chunk* chunk : ChunksOf(job))
      if (chunk_ == nullptr || chunk->segments.size() > chunk_->segments.size()) chunk_ = chunk;
    const Rate rate = RateOf(job);
    auto rule = MakeClockRule(job, *chunk_, InitialWeights(job), [this, rate](uint64_t step) {
      asked_steps_.push_back(step);
      return rate(step);
    });
    EXPECT_TRUE(rule.ok()) << rule.status().message();
    rule_ = std::move(*rule);
    for (Worker& worker : workers_) worker.model = InitialWeights(job);
  }

  struct Worker {
    std::vector<float> model;  // Only the elements of the rule's chunk are up to date.
    uint64_t version = 0;      // How many changes the weights had had at the worker's last pull.
    uint64_t clock = 0;        // How many pushes the worker has made.
  };

  // Returns the next push of `rank`: gradients or, if the algorithm pushes weights, slightly
  // changed weights.
  Bytes NextPush(uint32_t rank) const {
    const Worker& worker = workers_[rank];
    std::vector<float> values = GradientAt(rank, worker.clock + 1, worker.model);
    if (algorithm::FactsOf(job_.job).pushed_quantity == pb::AlgorithmTraits::parameters) {
      for (size_t k = 0; k < values.size(); ++k) values[k] = worker.model[k] - 0.1f * values[k];
    }
    return EncodePush(job_, *chunk_, values, rank, worker.clock + 1);
  }
  // Returns a push whose last element is `value`, for example infinity.
  Bytes PushEndingWith(float value) const {
    std::vector<float> values(job_.table.total, 0.5f);
    values[chunk_->begin + chunk_->count - 1] = value;
    return EncodePush(job_, *chunk_, values, 0, 1);
  }
  Status Push(uint32_t rank, const Bytes& payload) {
    ++workers_[rank].clock;
    return rule_->Push(rank, workers_[rank].version, payload);
  }
  // Lets worker `rank` pull and apply the answer. The worker tells the rule which version it has.
  ClockCell::Answer Pull(uint32_t rank) {
    ClockCell::Answer answer = rule_->Pull(rank, workers_[rank].version);
    ApplyAnswer(rank, answer);
    return answer;
  }
  void ApplyAnswer(uint32_t rank, const ClockCell::Answer& answer) {
    ApplyServerAnswer(job_, *chunk_, answer.is_fp32, answer.payload, &workers_[rank].model);
    workers_[rank].version = rule_->version();
  }
  // Workers push in a fixed random order. Makes pushes number `begin` to `end` - 1, after each of
  // which its worker pulls. Returns the answers to the pulls.
  std::vector<std::vector<uint8_t>> MakePushes(int begin, int end) {
    std::vector<std::vector<uint8_t>> answers;
    RandomRanks order(9);
    for (int i = 0; i < end; ++i) {
      const uint32_t rank = order.Next(job_.plan.workers);
      if (i < begin) continue;
      const Status push_status = Push(rank, NextPush(rank));
      EXPECT_TRUE(push_status.ok()) << push_status.message();
      answers.push_back(ToVector(Pull(rank).payload));
    }
    return answers;
  }
  void CopyWorkersOf(const RuleDrill& other) { workers_ = other.workers_; }

  // The weights of the rule's chunk that worker `rank` has.
  std::vector<float> ChunkWeightsOf(uint32_t rank) const {
    const auto begin = workers_[rank].model.begin() + static_cast<ptrdiff_t>(chunk_->begin);
    return {begin, begin + static_cast<ptrdiff_t>(chunk_->count)};
  }
  uint64_t version(uint32_t rank) const { return workers_[rank].version; }
  const protocol::Chunk& chunk() const { return *chunk_; }
  ClockRule& rule() { return *rule_; }
  // Returns the steps whose learning rate the rule has asked for since the last call.
  std::vector<uint64_t> TakeAskedSteps() { return std::exchange(asked_steps_, {}); }

 private:
  const setup::Setup& job_;
  const protocol::Chunk* chunk_ = nullptr;
  std::vector<uint64_t> asked_steps_;
  std::unique_ptr<ClockRule> rule_;
  std::vector<Worker> workers_;
};

class ClockRuleConformance : public testing::TestWithParam<RuleCase> {
 protected:
  static std::unique_ptr<setup::Setup> MakeJob(std::vector<std::string> overrides = {}) {
    overrides.insert(overrides.end(), {"train.algorithm=" + GetParam().algorithm,
                                       "exchange.pull=" + GetParam().answer_contents,
                                       "train.optimizer.name=momentum"});
    return MakeCentralJob(overrides);
  }
  static bool pulls_changes() { return GetParam().answer_contents == "changes"; }

  const std::unique_ptr<setup::Setup> job_ = MakeJob();
  RuleDrill drill_{*job_};
};

TEST_P(ClockRuleConformance, TheChunkHasSeveralTensors) {
  EXPECT_GE(drill_.chunk().segments.size(), 2u) << "else refusals within a push are not tested";
}

TEST_P(ClockRuleConformance, SamePushesInTheSameOrderGiveTheSameBytes) {
  RuleDrill second_drill(*job_);
  EXPECT_EQ(drill_.MakePushes(0, kNumPushes), second_drill.MakePushes(0, kNumPushes));
  EXPECT_EQ(SavedStateOf(&drill_.rule()), SavedStateOf(&second_drill.rule()));
}

TEST_P(ClockRuleConformance, RefusedPushesChangeNothing) {
  drill_.MakePushes(0, 7);
  const auto state_before = SavedStateOf(&drill_.rule());
  const auto expect_refused = [&](const Bytes& payload, const std::string& which) {
    const Status push_status = drill_.Push(1, payload);
    EXPECT_EQ(push_status.code(), Code::kMismatch) << which;
    EXPECT_NE(push_status.message(), "") << which;
    EXPECT_EQ(SavedStateOf(&drill_.rule()), state_before) << which;
  };
  const Bytes valid_push = drill_.NextPush(1);
  for (size_t size = 0; size < valid_push.size(); size += 5)
    expect_refused(valid_push.Slice(0, size), "truncated");
  std::vector<uint8_t> longer_push = ToVector(valid_push);
  longer_push.push_back(0);
  expect_refused(Bytes::Own(std::move(longer_push)), "longer");
  const float infinity = std::numeric_limits<float>::infinity();
  expect_refused(drill_.PushEndingWith(std::numeric_limits<float>::quiet_NaN()), "not a number");
  expect_refused(drill_.PushEndingWith(infinity), "infinite");
  expect_refused(drill_.PushEndingWith(-infinity), "minus infinite");

  RuleDrill undisturbed_drill(*job_);  // Gets no invalid push.
  undisturbed_drill.MakePushes(0, 7);
  drill_.CopyWorkersOf(undisturbed_drill);
  EXPECT_EQ(drill_.MakePushes(7, kNumPushes), undisturbed_drill.MakePushes(7, kNumPushes));
}

TEST_P(ClockRuleConformance, TheVersionCountsTheChangesOfTheWeights) {
  EXPECT_EQ(drill_.rule().version(), 0u);
  for (int i = 0; i < kNumPushes; ++i) {
    const std::vector<float> weights_before = WeightsOf(drill_.rule());
    const uint64_t version = drill_.rule().version();
    drill_.MakePushes(i, i + 1);
    const uint64_t num_changes = WeightsOf(drill_.rule()) == weights_before ? 0 : 1;
    ASSERT_EQ(drill_.rule().version(), version + num_changes) << "push " << i;
    ASSERT_EQ(drill_.rule().pushes(), static_cast<uint64_t>(i) + 1);
  }
  EXPECT_GE(drill_.rule().version(), kNumPushes / job_->plan.workers) << "weights must move";
}

TEST_P(ClockRuleConformance, PullsLeaveTheWeightsAsTheyAre) {
  drill_.MakePushes(0, 7);
  const std::vector<float> weights_before = WeightsOf(drill_.rule());
  const uint64_t version = drill_.rule().version(), pushes = drill_.rule().pushes();
  for (uint32_t rank = 0; rank < job_->plan.workers; ++rank) {
    drill_.Pull(rank);
    (void)drill_.rule().Pull(rank, std::nullopt);
    (void)drill_.rule().Average();
  }
  EXPECT_EQ(WeightsOf(drill_.rule()), weights_before);
  EXPECT_EQ(drill_.rule().version(), version);
  EXPECT_EQ(drill_.rule().pushes(), pushes);
}

// The answer to a push has the weights from before the push if the algorithm is elastic (EASGD),
// and otherwise those from after it.
TEST_P(ClockRuleConformance, APullAfterAPushGetsTheWeightsToContinueFrom) {
  const bool is_elastic = algorithm::FactsOf(job_->job).elastic_rate.has_value();
  for (int i = 0; i < kNumPushes; ++i) {
    const uint32_t rank = static_cast<uint32_t>(i) % job_->plan.workers;
    const std::vector<float> weights_before = WeightsOf(drill_.rule());
    ASSERT_TRUE(drill_.Push(rank, drill_.NextPush(rank)).ok());
    drill_.Pull(rank);
    const std::vector<float> expected = is_elastic ? weights_before : WeightsOf(drill_.rule());
    const std::vector<float> received_weights = drill_.ChunkWeightsOf(rank);
    for (size_t k = 0; k < received_weights.size(); ++k)
      ASSERT_NEAR(received_weights[k], expected[k], pulls_changes() ? 1e-6 : 0)
          << "push " << i << ", value " << k;
  }
}

TEST_P(ClockRuleConformance, APullWithoutAPushGetsTheCurrentWeights) {
  drill_.MakePushes(0, 9);
  for (uint32_t rank = 0; rank < job_->plan.workers; ++rank) {
    const ClockCell::Answer answer = drill_.rule().Pull(rank, std::nullopt);
    EXPECT_EQ(answer.is_fp32, pulls_changes()) << "a change needs to know what it is added to";
    drill_.ApplyAnswer(rank, answer);
    EXPECT_EQ(drill_.ChunkWeightsOf(rank), WeightsOf(drill_.rule()));
  }
}

TEST_P(ClockRuleConformance, ChangesAreSentOnlyToAWorkerThatHasTheNewestAnswer) {
  drill_.MakePushes(0, 9);
  for (uint32_t rank = 0; rank < job_->plan.workers; ++rank) {
    drill_.Pull(rank);
    EXPECT_FALSE(drill_.Pull(rank).is_fp32) << "it holds the newest answer";
    const ClockCell::Answer answer = drill_.rule().Pull(rank, drill_.version(rank) + 1);
    EXPECT_EQ(answer.is_fp32, pulls_changes());
    const ClockCell::Answer answer_to_older_version =
        drill_.rule().Pull(rank, drill_.version(rank) - 1);
    EXPECT_EQ(answer_to_older_version.is_fp32, pulls_changes());
  }
}

TEST_P(ClockRuleConformance, SavedStateContinuesWithTheSameBytes) {
  for (const int num_pushes : {0, 1, 2, 5, 23}) {
    RuleDrill original(*job_), restored(*job_);
    original.MakePushes(0, num_pushes);
    SavedState original_state, restored_state;
    original.rule().AddState(&original_state);
    restored.rule().AddState(&restored_state);
    ASSERT_EQ(original_state.arrays.size(), restored_state.arrays.size());
    ASSERT_EQ(original_state.numbers.size(), restored_state.numbers.size());
    for (size_t i = 0; i < original_state.arrays.size(); ++i) {
      ASSERT_EQ(original_state.arrays[i].name, restored_state.arrays[i].name);
      ASSERT_EQ(original_state.arrays[i].values.size(), restored_state.arrays[i].values.size());
      std::copy(original_state.arrays[i].values.begin(), original_state.arrays[i].values.end(),
                restored_state.arrays[i].values.begin());
    }
    for (size_t i = 0; i < original_state.numbers.size(); ++i) {
      ASSERT_EQ(original_state.numbers[i].name, restored_state.numbers[i].name);
      *restored_state.numbers[i].value = *original_state.numbers[i].value;
    }
    restored.CopyWorkersOf(original);
    EXPECT_EQ(restored.MakePushes(num_pushes, kNumPushes),
              original.MakePushes(num_pushes, kNumPushes))
        << num_pushes;
    EXPECT_EQ(SavedStateOf(&restored.rule()), SavedStateOf(&original.rule())) << num_pushes;
  }
}

TEST_P(ClockRuleConformance, TheAverageIsTheWeightsUnlessTheJobKeepsOne) {
  drill_.MakePushes(0, 9);
  EXPECT_EQ(ToVector(drill_.rule().Average()), ToVector(Fp32Bytes(drill_.rule().weights())));
  const auto averaging_job = MakeJob({"evaluation.ema_decay=0.9"});
  RuleDrill averaging_drill(*averaging_job);
  averaging_drill.MakePushes(0, 9);
  EXPECT_EQ(WeightsOf(averaging_drill.rule()), WeightsOf(drill_.rule()))
      << "averaging must not train";
  EXPECT_NE(ToVector(averaging_drill.rule().Average()),
            ToVector(Fp32Bytes(averaging_drill.rule().weights())));
}

TEST_P(ClockRuleConformance, UsesTheLearningRateOfTheGlobalStep) {
  const algorithm::Facts facts = algorithm::FactsOf(job_->job);
  for (int i = 0; i < kNumPushes; ++i) {
    const uint64_t step = facts.StepsOfPushes(drill_.rule().pushes(), job_->plan.workers);
    drill_.MakePushes(i, i + 1);
    EXPECT_THAT(drill_.TakeAskedSteps(), Each(step)) << "push " << i;
  }
}

// If the algorithm bounds how many pushes a worker may be ahead of the slowest worker, a worker at
// the bound gets no answer to its next push until the slowest has pushed.
TEST_P(ClockRuleConformance, AWorkerIsAheadOfTheSlowestAsFarAsTheBoundAllows) {
  const std::optional<uint64_t> bound = algorithm::FactsOf(job_->job).max_steps_ahead;
  ClockDrill drill(*job_);
  const std::vector<float> values(job_->table.total, 0.01f);
  const uint64_t last_clock_without_wait = bound.value_or(6);
  for (uint64_t clock = 1; clock <= last_clock_without_wait; ++clock) {
    drill.Push(2, values);
    ASSERT_FALSE(drill.is_waiting(2)) << "clock " << clock;
  }
  drill.Push(2, values);
  EXPECT_EQ(drill.is_waiting(2), bound.has_value());
  for (const uint32_t rank : {0, 1}) drill.Push(rank, values);
  EXPECT_EQ(drill.is_waiting(2), bound.has_value()) << "rank 3 has not pushed";
  drill.Push(3, values);
  EXPECT_FALSE(drill.is_waiting(2));
  for (const float value : drill.weights_of(2)) ASSERT_TRUE(std::isfinite(value));
}

INSTANTIATE_TEST_SUITE_P(Every, ClockRuleConformance, testing::ValuesIn(AllCases()),
                         [](const auto& info) {
                           return info.param.algorithm + "_" + info.param.answer_contents;
                         });

// MakeClockRule has a rule for every algorithm without rounds, and for no other algorithm.
TEST(ClockRuleTable, HasARuleForEveryAlgorithmWithoutRounds) {
  const auto names_without_rounds =
      algorithm::AlgorithmsWithCloses(pb::AlgorithmTraits::every_push);
  const std::set<std::string> expected(names_without_rounds.begin(), names_without_rounds.end());
  const auto job = MakeCentralJob({"train.algorithm=asgd"});
  for (const std::string& name : algorithm::AlgorithmNames()) {
    job->job.mutable_train()->set_algorithm(name);
    const auto rule = MakeClockRule(*job, *ChunksOf(*job)[0], InitialWeights(*job), RateOf(*job));
    EXPECT_EQ(rule.ok(), expected.contains(name)) << name;
    if (rule.ok()) continue;
    EXPECT_EQ(rule.status().code(), Code::kBadJob);
    EXPECT_THAT(rule.status().message(), testing::HasSubstr("'" + name + "'"));
  }
}

}  // namespace
}  // namespace tern::server
