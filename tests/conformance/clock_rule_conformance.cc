// Requirements for every rule of server/rules, independent of its equation (that is tested in
// tests/server/rules). The suite runs over the algorithms of job.proto whose servers apply every
// push at once, each with both kinds of answers: a new algorithm is tested without a new line.
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
  std::string pull;  // weights, changes
};

std::vector<RuleCase> AllCases() {
  std::vector<RuleCase> cases;
  for (const std::string& name : algorithm::AlgorithmsThatClose(pb::AlgorithmTraits::every_push))
    for (const char* pull : {"weights", "changes"}) cases.push_back({name, pull});
  return cases;
}

// All that a rule saves, by name, bit by bit.
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

// A rule of one chunk of several tensors, and what its workers hold.
class Drill {
 public:
  explicit Drill(const setup::Setup& job) : job_(job), held_(job.plan.workers) {
    for (const protocol::Chunk* chunk : ChunksOf(job))
      if (chunk_ == nullptr || chunk->segments.size() > chunk_->segments.size()) chunk_ = chunk;
    const Rate rate = RateOf(job);
    auto rule = MakeClockRule(job, *chunk_, InitialWeights(job), [this, rate](uint64_t step) {
      asked_.push_back(step);
      return rate(step);
    });
    EXPECT_TRUE(rule.ok()) << rule.status().message();
    rule_ = std::move(*rule);
    for (Worker& worker : held_) worker.model = InitialWeights(job);
  }

  struct Worker {
    std::vector<float> model;  // of which this rule's chunk is kept up to date
    uint64_t version = 0;
    uint64_t clock = 0;
  };

  // What `rank` pushes next: gradients, or weights, which moved a little.
  Bytes NextPush(uint32_t rank) const {
    const Worker& worker = held_[rank];
    std::vector<float> values = GradientAt(rank, worker.clock + 1, worker.model);
    if (algorithm::FactsOf(job_.job).pushes == pb::AlgorithmTraits::parameters) {
      for (size_t k = 0; k < values.size(); ++k) values[k] = worker.model[k] - 0.1f * values[k];
    }
    return EncodePush(job_, *chunk_, values, rank, worker.clock + 1);
  }
  // A push whose last element is `value`, for example infinity.
  Bytes PushWith(float value) const {
    std::vector<float> values(job_.table.total, 0.5f);
    values[chunk_->begin + chunk_->count - 1] = value;
    return EncodePush(job_, *chunk_, values, 0, 1);
  }
  Status Push(uint32_t rank, const Bytes& payload) {
    ++held_[rank].clock;
    return rule_->Push(rank, held_[rank].version, payload);
  }
  // The worker `rank` pulls, says which version it holds, and applies the answer.
  ClockCell::Answer Pull(uint32_t rank) {
    ClockCell::Answer answer = rule_->Pull(rank, held_[rank].version);
    Take(rank, answer);
    return answer;
  }
  void Take(uint32_t rank, const ClockCell::Answer& answer) {
    TakeAnswer(job_, *chunk_, answer.whole, answer.payload, &held_[rank].model);
    held_[rank].version = rule_->version();
  }
  // Pushes number `from` to `to` of an order that is the same each time; returns the answers.
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
  void TakeWorkersOf(const Drill& other) { held_ = other.held_; }

  // The chunk's part of what `rank` holds.
  std::vector<float> PartOf(uint32_t rank) const {
    const auto begin = held_[rank].model.begin() + static_cast<ptrdiff_t>(chunk_->begin);
    return {begin, begin + static_cast<ptrdiff_t>(chunk_->count)};
  }
  uint64_t version(uint32_t rank) const { return held_[rank].version; }
  const protocol::Chunk& chunk() const { return *chunk_; }
  ClockRule& rule() { return *rule_; }
  // The steps whose learning rate the rule has asked for since the last call.
  std::vector<uint64_t> Asked() { return std::exchange(asked_, {}); }

 private:
  const setup::Setup& job_;
  const protocol::Chunk* chunk_ = nullptr;
  std::vector<uint64_t> asked_;
  std::unique_ptr<ClockRule> rule_;
  std::vector<Worker> held_;
};

class ClockRuleConformance : public testing::TestWithParam<RuleCase> {
 protected:
  static std::unique_ptr<setup::Setup> Job(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"train.algorithm=" + GetParam().algorithm,
                             "exchange.pull=" + GetParam().pull, "train.optimizer.name=momentum"});
    return CentralJob(more);
  }
  static bool changes() { return GetParam().pull == "changes"; }

  const std::unique_ptr<setup::Setup> job_ = Job();
  Drill drill_{*job_};
};

TEST_P(ClockRuleConformance, TheChunkHasSeveralTensors) {
  EXPECT_GE(drill_.chunk().segments.size(), 2u) << "else refusals within a push are not tested";
}

TEST_P(ClockRuleConformance, SamePushesInTheSameOrderGiveTheSameBytes) {
  Drill again(*job_);
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
  refuses(drill_.PushWith(std::numeric_limits<float>::quiet_NaN()), "not a number");
  refuses(drill_.PushWith(infinity), "infinite");
  refuses(drill_.PushWith(-infinity), "minus infinite");

  Drill other(*job_);  // gets no invalid push
  other.PushOn(0, 7);
  drill_.TakeWorkersOf(other);
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

// Elastic algorithms promise the weights before the push, all others those after it.
TEST_P(ClockRuleConformance, WhoPushesGetsTheWeightsToContinueFrom) {
  const bool old = algorithm::FactsOf(job_->job).elastic.has_value();
  for (int i = 0; i < kSomePushes; ++i) {
    const uint32_t rank = static_cast<uint32_t>(i) % job_->plan.workers;
    const std::vector<float> before = WeightsOf(drill_.rule());
    ASSERT_TRUE(drill_.Push(rank, drill_.NextPush(rank)).ok());
    drill_.Pull(rank);
    const std::vector<float> expected = old ? before : WeightsOf(drill_.rule());
    const std::vector<float> held = drill_.PartOf(rank);
    for (size_t k = 0; k < held.size(); ++k)
      ASSERT_NEAR(held[k], expected[k], changes() ? 1e-6 : 0) << "push " << i << ", value " << k;
  }
}

TEST_P(ClockRuleConformance, WhoOnlyPullsGetsTheWeightsOfNow) {
  drill_.PushOn(0, 9);
  for (uint32_t rank = 0; rank < job_->plan.workers; ++rank) {
    const ClockCell::Answer answer = drill_.rule().Pull(rank, std::nullopt);
    EXPECT_EQ(answer.whole, changes()) << "a change needs to know what it is added to";
    drill_.Take(rank, answer);
    EXPECT_EQ(drill_.PartOf(rank), WeightsOf(drill_.rule()));
  }
}

TEST_P(ClockRuleConformance, ADifferenceGoesOnlyToWhoHoldsTheNewestAnswer) {
  drill_.PushOn(0, 9);
  for (uint32_t rank = 0; rank < job_->plan.workers; ++rank) {
    drill_.Pull(rank);
    EXPECT_FALSE(drill_.Pull(rank).whole) << "it holds the newest answer";
    const ClockCell::Answer answer = drill_.rule().Pull(rank, drill_.version(rank) + 1);
    EXPECT_EQ(answer.whole, changes());
    const ClockCell::Answer older = drill_.rule().Pull(rank, drill_.version(rank) - 1);
    EXPECT_EQ(older.whole, changes());
  }
}

TEST_P(ClockRuleConformance, SavedStateContinuesWithTheSameBytes) {
  for (const int at : {0, 1, 2, 5, 23}) {
    Drill whole(*job_), restored(*job_);
    whole.PushOn(0, at);
    SavedState from, to;
    whole.rule().AddState(&from);
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
    restored.TakeWorkersOf(whole);
    EXPECT_EQ(restored.PushOn(at, kSomePushes), whole.PushOn(at, kSomePushes)) << at;
    EXPECT_EQ(StateOf(&restored.rule()), StateOf(&whole.rule())) << at;
  }
}

TEST_P(ClockRuleConformance, TheAverageIsTheWeightsUnlessTheJobKeepsOne) {
  drill_.PushOn(0, 9);
  EXPECT_EQ(BytesOf(drill_.rule().Average()), BytesOf(Fp32Bytes(drill_.rule().weights())));
  const auto averaged = Job({"evaluation.ema_decay=0.9"});
  Drill other(*averaged);
  other.PushOn(0, 9);
  EXPECT_EQ(WeightsOf(other.rule()), WeightsOf(drill_.rule())) << "averaging must not train";
  EXPECT_NE(BytesOf(other.rule().Average()), BytesOf(Fp32Bytes(other.rule().weights())));
}

TEST_P(ClockRuleConformance, TheRateIsThatOfTheGlobalStep) {
  const algorithm::Facts facts = algorithm::FactsOf(job_->job);
  for (int i = 0; i < kSomePushes; ++i) {
    const uint64_t step = facts.StepsOfPushes(drill_.rule().pushes(), job_->plan.workers);
    drill_.PushOn(i, i + 1);
    EXPECT_THAT(drill_.Asked(), Each(step)) << "push " << i;
  }
}

// In a lane: if the algorithm has a bound, a worker that is farther ahead of the slowest must wait.
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

// The table has a rule for these algorithms and for no other.
TEST(ClockRuleTable, HasARuleForEveryAlgorithmWithoutRounds) {
  const auto without = algorithm::AlgorithmsThatClose(pb::AlgorithmTraits::every_push);
  const std::set<std::string> expected(without.begin(), without.end());
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
