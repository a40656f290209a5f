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

constexpr int kSomePushes = 40;

struct RuleCase {
  std::string algorithm;
  std::string pull;  // What answers to pulls contain: "weights" or "changes".
};

std::vector<RuleCase> AllCases() {
  std::vector<RuleCase> cases;
  for (const std::string& name : algorithm::AlgorithmsThatClose(pb::AlgorithmTraits::every_push))
    for (const char* pull : {"weights", "changes"}) cases.push_back({name, pull});
  return cases;
}

// Returns the exact state that a rule saves in checkpoints, by name.
std::map<std::string, std::string> StateOf(ClockRule* rule) {
  SavedState saved;
  rule->AddState(&saved);
  std::map<std::string, std::string> state;
  for (const SavedState::Array& array : saved.arrays) {
    const auto* bytes = reinterpret_cast<const char*>(array.values.data());
    EXPECT_TRUE(
        state.emplace("array " + array.name, std::string(bytes, array.values.size_bytes())).second)
        << "two arrays are named " << array.name;
  }
  for (const SavedState::Number& number : saved.numbers) {
    EXPECT_TRUE(state.emplace("number " + number.name, std::to_string(*number.value)).second)
        << "two numbers are named " << number.name;
  }
  return state;
}

std::vector<float> WeightsOf(const ClockRule& rule) {
  return {rule.weights().begin(), rule.weights().end()};
}

std::vector<uint8_t> BytesOf(const Bytes& bytes) {
  return {bytes.span().begin(), bytes.span().end()};
}

// A rule for one chunk of the model that has elements of several tensors, and the workers' state.
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
    if (algorithm::FactsOf(job_.job).pushes == pb::AlgorithmTraits::parameters) {
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
    TakeAnswer(job_, *chunk_, answer.whole, answer.payload, &workers_[rank].model);
    workers_[rank].version = rule_->version();
  }
  // Makes the pushes number `from` to `to` - 1 of a fixed random order of workers. Each worker
  // pulls after its push; returns the answers.
  std::vector<std::vector<uint8_t>> PushOn(int from, int to) {
    std::vector<std::vector<uint8_t>> answers;
    Order order(9);
    for (int i = 0; i < to; ++i) {
      const uint32_t rank = order.Next(job_.plan.workers);
      if (i < from) continue;
      const Status pushed = Push(rank, NextPush(rank));
      EXPECT_TRUE(pushed.ok()) << pushed.message();
      answers.push_back(BytesOf(Pull(rank).payload));
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
  static std::unique_ptr<setup::Setup> Job(std::vector<std::string> overrides = {}) {
    overrides.insert(overrides.end(),
                     {"train.algorithm=" + GetParam().algorithm, "exchange.pull=" + GetParam().pull,
                      "train.optimizer.name=momentum"});
    return CentralJob(overrides);
  }
  static bool pulls_changes() { return GetParam().pull == "changes"; }

  const std::unique_ptr<setup::Setup> job_ = Job();
  RuleDrill drill_{*job_};
};

TEST_P(ClockRuleConformance, TheChunkHasSeveralTensors) {
  EXPECT_GE(drill_.chunk().segments.size(), 2u) << "else refusals within a push are not tested";
}

TEST_P(ClockRuleConformance, SamePushesInTheSameOrderGiveTheSameBytes) {
  RuleDrill again(*job_);
  EXPECT_EQ(drill_.PushOn(0, kSomePushes), again.PushOn(0, kSomePushes));
  EXPECT_EQ(StateOf(&drill_.rule()), StateOf(&again.rule()));
}

TEST_P(ClockRuleConformance, RefusedPushesChangeNothing) {
  drill_.PushOn(0, 7);
  const auto before = StateOf(&drill_.rule());
  const auto refuses = [&](const Bytes& payload, const std::string& which) {
    const Status pushed = drill_.Push(1, payload);
    EXPECT_EQ(pushed.code(), Code::kMismatch) << which;
    EXPECT_NE(pushed.message(), "") << which;
    EXPECT_EQ(StateOf(&drill_.rule()), before) << which;
  };
  const Bytes good = drill_.NextPush(1);
  for (size_t size = 0; size < good.size(); size += 5) refuses(good.Slice(0, size), "truncated");
  std::vector<uint8_t> longer = BytesOf(good);
  longer.push_back(0);
  refuses(Bytes::Own(std::move(longer)), "longer");
  const float infinity = std::numeric_limits<float>::infinity();
  refuses(drill_.PushEndingWith(std::numeric_limits<float>::quiet_NaN()), "not a number");
  refuses(drill_.PushEndingWith(infinity), "infinite");
  refuses(drill_.PushEndingWith(-infinity), "minus infinite");

  RuleDrill other(*job_);  // Gets no invalid push.
  other.PushOn(0, 7);
  drill_.CopyWorkersOf(other);
  EXPECT_EQ(drill_.PushOn(7, kSomePushes), other.PushOn(7, kSomePushes));
}

TEST_P(ClockRuleConformance, TheVersionCountsTheChangesOfTheWeights) {
  EXPECT_EQ(drill_.rule().version(), 0u);
  for (int i = 0; i < kSomePushes; ++i) {
    const std::vector<float> before = WeightsOf(drill_.rule());
    const uint64_t version = drill_.rule().version();
    drill_.PushOn(i, i + 1);
    const uint64_t changed = WeightsOf(drill_.rule()) == before ? 0 : 1;
    ASSERT_EQ(drill_.rule().version(), version + changed) << "push " << i;
    ASSERT_EQ(drill_.rule().pushes(), static_cast<uint64_t>(i) + 1);
  }
  EXPECT_GE(drill_.rule().version(), kSomePushes / job_->plan.workers) << "weights must move";
}

TEST_P(ClockRuleConformance, PullsLeaveTheWeightsAsTheyAre) {
  drill_.PushOn(0, 7);
  const std::vector<float> before = WeightsOf(drill_.rule());
  const uint64_t version = drill_.rule().version(), pushes = drill_.rule().pushes();
  for (uint32_t rank = 0; rank < job_->plan.workers; ++rank) {
    drill_.Pull(rank);
    (void)drill_.rule().Pull(rank, std::nullopt);
    (void)drill_.rule().Average();
  }
  EXPECT_EQ(WeightsOf(drill_.rule()), before);
  EXPECT_EQ(drill_.rule().version(), version);
  EXPECT_EQ(drill_.rule().pushes(), pushes);
}

// The answer to a push has the weights from before the push if the algorithm is elastic (EASGD),
// and otherwise those from after it.
TEST_P(ClockRuleConformance, APullAfterAPushGetsTheWeightsToContinueFrom) {
  const bool is_elastic = algorithm::FactsOf(job_->job).elastic.has_value();
  for (int i = 0; i < kSomePushes; ++i) {
    const uint32_t rank = static_cast<uint32_t>(i) % job_->plan.workers;
    const std::vector<float> before = WeightsOf(drill_.rule());
    ASSERT_TRUE(drill_.Push(rank, drill_.NextPush(rank)).ok());
    drill_.Pull(rank);
    const std::vector<float> expected = is_elastic ? before : WeightsOf(drill_.rule());
    const std::vector<float> held = drill_.ChunkWeightsOf(rank);
    for (size_t k = 0; k < held.size(); ++k)
      ASSERT_NEAR(held[k], expected[k], pulls_changes() ? 1e-6 : 0)
          << "push " << i << ", value " << k;
  }
}

TEST_P(ClockRuleConformance, APullWithoutAPushGetsTheCurrentWeights) {
  drill_.PushOn(0, 9);
  for (uint32_t rank = 0; rank < job_->plan.workers; ++rank) {
    const ClockCell::Answer answer = drill_.rule().Pull(rank, std::nullopt);
    EXPECT_EQ(answer.whole, pulls_changes()) << "a change needs to know what it is added to";
    drill_.ApplyAnswer(rank, answer);
    EXPECT_EQ(drill_.ChunkWeightsOf(rank), WeightsOf(drill_.rule()));
  }
}

TEST_P(ClockRuleConformance, ChangesAreSentOnlyToAWorkerThatHasTheNewestAnswer) {
  drill_.PushOn(0, 9);
  for (uint32_t rank = 0; rank < job_->plan.workers; ++rank) {
    drill_.Pull(rank);
    EXPECT_FALSE(drill_.Pull(rank).whole) << "it holds the newest answer";
    const ClockCell::Answer answer = drill_.rule().Pull(rank, drill_.version(rank) + 1);
    EXPECT_EQ(answer.whole, pulls_changes());
    const ClockCell::Answer older = drill_.rule().Pull(rank, drill_.version(rank) - 1);
    EXPECT_EQ(older.whole, pulls_changes());
  }
}

TEST_P(ClockRuleConformance, SavedStateContinuesWithTheSameBytes) {
  for (const int at : {0, 1, 2, 5, 23}) {
    RuleDrill original(*job_), restored(*job_);
    original.PushOn(0, at);
    SavedState from, to;
    original.rule().AddState(&from);
    restored.rule().AddState(&to);
    ASSERT_EQ(from.arrays.size(), to.arrays.size());
    ASSERT_EQ(from.numbers.size(), to.numbers.size());
    for (size_t i = 0; i < from.arrays.size(); ++i) {
      ASSERT_EQ(from.arrays[i].name, to.arrays[i].name);
      ASSERT_EQ(from.arrays[i].values.size(), to.arrays[i].values.size());
      std::copy(from.arrays[i].values.begin(), from.arrays[i].values.end(),
                to.arrays[i].values.begin());
    }
    for (size_t i = 0; i < from.numbers.size(); ++i) {
      ASSERT_EQ(from.numbers[i].name, to.numbers[i].name);
      *to.numbers[i].value = *from.numbers[i].value;
    }
    restored.CopyWorkersOf(original);
    EXPECT_EQ(restored.PushOn(at, kSomePushes), original.PushOn(at, kSomePushes)) << at;
    EXPECT_EQ(StateOf(&restored.rule()), StateOf(&original.rule())) << at;
  }
}

TEST_P(ClockRuleConformance, TheAverageIsTheWeightsUnlessTheJobKeepsOne) {
  drill_.PushOn(0, 9);
  EXPECT_EQ(BytesOf(drill_.rule().Average()), BytesOf(Fp32Bytes(drill_.rule().weights())));
  const auto averaged = Job({"evaluation.ema_decay=0.9"});
  RuleDrill other(*averaged);
  other.PushOn(0, 9);
  EXPECT_EQ(WeightsOf(other.rule()), WeightsOf(drill_.rule())) << "averaging must not train";
  EXPECT_NE(BytesOf(other.rule().Average()), BytesOf(Fp32Bytes(other.rule().weights())));
}

TEST_P(ClockRuleConformance, UsesTheLearningRateOfTheGlobalStep) {
  const algorithm::Facts facts = algorithm::FactsOf(job_->job);
  for (int i = 0; i < kSomePushes; ++i) {
    const uint64_t step = facts.StepsOfPushes(drill_.rule().pushes(), job_->plan.workers);
    drill_.PushOn(i, i + 1);
    EXPECT_THAT(drill_.TakeAskedSteps(), Each(step)) << "push " << i;
  }
}

// If the algorithm bounds how many pushes a worker may be ahead of the slowest worker, a worker at
// the bound gets no answer to its next push until the slowest has pushed.
TEST_P(ClockRuleConformance, AWorkerIsAheadOfTheSlowestAsFarAsTheBoundAllows) {
  const std::optional<uint64_t> bound = algorithm::FactsOf(job_->job).bound;
  ClockDrill lane(*job_);
  const std::vector<float> values(job_->table.total, 0.01f);
  const uint64_t clocks = bound.value_or(6);
  for (uint64_t clock = 1; clock <= clocks; ++clock) {
    lane.Push(2, values);
    ASSERT_FALSE(lane.waiting(2)) << "clock " << clock;
  }
  lane.Push(2, values);
  EXPECT_EQ(lane.waiting(2), bound.has_value());
  for (const uint32_t rank : {0, 1}) lane.Push(rank, values);
  EXPECT_EQ(lane.waiting(2), bound.has_value()) << "rank 3 has not pushed";
  lane.Push(3, values);
  EXPECT_FALSE(lane.waiting(2));
  for (const float value : lane.held(2)) ASSERT_TRUE(std::isfinite(value));
}

INSTANTIATE_TEST_SUITE_P(Every, ClockRuleConformance, testing::ValuesIn(AllCases()),
                         [](const auto& info) {
                           return info.param.algorithm + "_" + info.param.pull;
                         });

// MakeClockRule has a rule for every algorithm without rounds, and for no other algorithm.
TEST(ClockRuleTable, HasARuleForEveryAlgorithmWithoutRounds) {
  const auto without_rounds = algorithm::AlgorithmsThatClose(pb::AlgorithmTraits::every_push);
  const std::set<std::string> expected(without_rounds.begin(), without_rounds.end());
  const auto job = CentralJob({"train.algorithm=asgd"});
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
