// Tests of Facts, the properties of an algorithm that the other code uses, such as in which steps
// its rounds end. Compares the facts of every algorithm of job.proto with tables in this file and
// with general laws.
#include "common/algorithm/facts.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>

#include <sstream>
#include <string>
#include <vector>

#include "common/algorithm/algorithms.h"

namespace tern::algorithm {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::ElementsAreArray;
using ::testing::UnorderedElementsAreArray;

// A job with the algorithm `name`. Workers or servers hold the parameters, as is the algorithm's
// default.
pb::Job MakeJob(const std::string& name) {
  pb::Job job;
  job.mutable_train()->set_algorithm(name);
  job.mutable_train()->set_parameters(
      static_cast<pb::Train::Parameters>(TraitsOf(job.train())->holding(0)));
  return job;
}

// The section of the job's algorithm in `train`.
Message* MutableSection(pb::Job* job) {
  pb::Train* train = job->mutable_train();
  return train->GetReflection()->MutableMessage(train, SectionOf(*train));
}
const FieldDescriptor* FieldOfKey(const pb::Job& job, const std::string& key) {
  return SectionOf(job.train())->message_type()->FindFieldByName(key);
}
// A job with the algorithm `name` and, if the algorithm has periods, with `period` steps from one
// exchange to the next.
pb::Job MakeJobWithPeriod(const std::string& name, uint32_t period) {
  pb::Job job = MakeJob(name);
  const std::string& key = TraitsOf(job.train())->period_key();
  if (key.empty()) return job;
  Message* section = MutableSection(&job);
  section->GetReflection()->SetUInt32(section, FieldOfKey(job, key), period);
  return job;
}

// The rounds (exchanges with the servers) of a job of ten steps, with periods of four steps if the
// algorithm has periods.
struct AlgorithmRounds {
  const char* name;
  std::vector<uint64_t> step_of_round;  // StepOfRound(r, 10) for r = 1 to 4
  std::vector<uint64_t> round_of_step;  // RoundOfStep(s) for s = 1 to 10
  std::vector<uint64_t> last_steps;     // the steps that end a round
};
const std::vector<uint64_t> kOneRoundPerStep = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
const std::vector<uint64_t> kRoundsOfFourSteps = {1, 1, 1, 1, 2, 2, 2, 2, 3, 3};
const AlgorithmRounds kRoundsOfAlgorithms[] = {
    {"ssgd", {1, 2, 3, 4}, kOneRoundPerStep, kOneRoundPerStep},
    {"odsgd", {1, 2, 3, 4}, kOneRoundPerStep, kOneRoundPerStep},
    {"asgd", {4, 8, 12, 16}, kRoundsOfFourSteps, {4, 8}},
    {"dcasgd_c", {1, 2, 3, 4}, kOneRoundPerStep, kOneRoundPerStep},
    {"dcasgd_a", {1, 2, 3, 4}, kOneRoundPerStep, kOneRoundPerStep},
    {"ssp", {1, 2, 3, 4}, kOneRoundPerStep, kOneRoundPerStep},
    {"softsync", {1, 2, 3, 4}, kOneRoundPerStep, kOneRoundPerStep},
    {"psgd", {4, 8, 10, 10}, kRoundsOfFourSteps, {4, 8, 10}},
    {"rsgd", {0, 1, 1, 2}, {2, 4, 6, 8, 10, 12, 14, 16, 18, 20}, kOneRoundPerStep},
    {"pqasgd", {4, 8, 10, 10}, kRoundsOfFourSteps, {4, 8, 10}},
    {"easgd", {5, 9, 13, 17}, {1, 1, 1, 1, 1, 2, 2, 2, 2, 3}, {5, 9}},
    {"easgd_async", {4, 8, 12, 16}, kRoundsOfFourSteps, {4, 8}},
};

TEST(Facts, DescribeTheRoundsOfEachAlgorithm) {
  constexpr uint64_t kSteps = 10;
  std::vector<std::string> names;
  for (const AlgorithmRounds& expected : kRoundsOfAlgorithms) {
    SCOPED_TRACE(expected.name);
    names.emplace_back(expected.name);
    const pb::Job job = MakeJobWithPeriod(expected.name, 4);
    const Facts facts = FactsOf(job);
    std::vector<uint64_t> steps, rounds, last_steps;
    for (uint64_t round = 1; round <= 4; ++round) steps.push_back(facts.StepOfRound(round, kSteps));
    for (uint64_t step = 1; step <= kSteps; ++step) {
      rounds.push_back(facts.RoundOfStep(step));
      if (facts.EndsRound(step, kSteps)) last_steps.push_back(step);
    }
    EXPECT_THAT(steps, ElementsAreArray(expected.step_of_round));
    EXPECT_THAT(rounds, ElementsAreArray(expected.round_of_step));
    EXPECT_THAT(last_steps, ElementsAreArray(expected.last_steps));
    EXPECT_EQ(facts.StepOfRound(0), 0u);
    EXPECT_EQ(facts.StepOfRound(0, kSteps), 0u);
  }
  EXPECT_THAT(names, UnorderedElementsAreArray(AlgorithmNames()));
}

// With p = 4 and two fragments, an interval has two steps. Interval j ends with round 2 j; the odd
// rounds are for the job's end.
TEST(Facts, DescribeTheRoundsOfFragments) {
  pb::Job job = MakeJobWithPeriod("pqasgd", 4);
  job.mutable_train()->mutable_pqasgd()->set_fragments(2);
  const Facts facts = FactsOf(job);
  EXPECT_EQ(facts.period, 2u);
  EXPECT_EQ(facts.steps_a_push(), 4u);
  EXPECT_EQ(facts.num_parts, 2u);
  EXPECT_EQ(facts.window, 2u);
  EXPECT_FALSE(facts.may_cut_period_short);
  std::vector<uint64_t> steps, rounds, last_steps;
  for (uint64_t round = 1; round <= 7; ++round) steps.push_back(facts.StepOfRound(round, 5));
  for (uint64_t step = 1; step <= 5; ++step) {
    rounds.push_back(facts.RoundOfStep(step));
    if (facts.EndsRound(step, 5)) last_steps.push_back(step);
  }
  EXPECT_THAT(steps, ElementsAreArray({0, 2, 2, 4, 4, 6, 6}));
  EXPECT_THAT(rounds, ElementsAreArray({2, 2, 4, 4, 6}));
  EXPECT_THAT(last_steps, ElementsAreArray({2, 4}));
}

TEST(Facts, OfOneFragmentAreThoseOfTheWholeModel) {
  pb::Job job = MakeJobWithPeriod("pqasgd", 4);
  const Facts without_key = FactsOf(job);
  job.mutable_train()->mutable_pqasgd()->set_fragments(1);
  const Facts facts = FactsOf(job);
  EXPECT_EQ(facts.num_parts, 0u);
  EXPECT_EQ(facts.period, without_key.period);
  EXPECT_EQ(facts.window, without_key.window);
  EXPECT_EQ(facts.rounds_a_period, without_key.rounds_a_period);
  EXPECT_EQ(facts.exchanges_ahead, 0u);
  EXPECT_TRUE(facts.may_cut_period_short);
}

TEST(Facts, SayWhetherFragmentsTravelDuringLocalSteps) {
  pb::Job job = MakeJobWithPeriod("pqasgd", 4);
  pb::Pqasgd* pqasgd = job.mutable_train()->mutable_pqasgd();
  pqasgd->set_fragments(4);
  EXPECT_EQ(FactsOf(job).exchanges_ahead, 1u);
  pqasgd->set_overlap(false);
  EXPECT_EQ(FactsOf(job).exchanges_ahead, 0u);
}

// A text with the facts that DescribeEachAlgorithmWithItsDefaults compares.
std::string Describe(const Facts& facts) {
  std::ostringstream out;
  out << (facts.has_rounds ? "rounds" : "pushes") << " of "
      << pb::AlgorithmTraits::Pushes_Name(facts.pushed_quantity)
      << (facts.is_central ? ", central" : ", localized") << ", window " << facts.window;
  if (facts.exchanges_ahead != 0) out << ", ahead " << facts.exchanges_ahead;
  if (facts.max_steps_ahead.has_value()) out << ", bound " << *facts.max_steps_ahead;
  if (facts.num_parts != 0) out << ", parts " << facts.num_parts << " by " << facts.parts_key;
  if (facts.elastic_rate.has_value()) out << ", elastic " << *facts.elastic_rate;
  if (facts.local_updater != nullptr)
    out << ", " << facts.local_updater_key << " " << facts.local_updater->name();
  if (facts.has_own_point) out << ", own point";
  if (facts.applies_by_bucket) out << ", by bucket";
  if (facts.applies_in_forward) out << ", in forward";
  if (facts.stays_on_device) out << ", on device";
  return out.str();
}

TEST(Facts, DescribeEachAlgorithmWithItsDefaults) {
  const std::pair<const char*, const char*> expected[] = {
      {"ssgd", "rounds of gradient, localized, window 1, by bucket, in forward, on device"},
      {"odsgd",
       "rounds of gradient, localized, window 2, ahead 1, train.odsgd.local sgd, own point, by "
       "bucket, on device"},
      {"asgd", "pushes of gradient, central, window 1, own point"},
      {"dcasgd_c", "pushes of gradient, central, window 1"},
      {"dcasgd_a", "pushes of gradient, central, window 1"},
      {"ssp", "pushes of gradient, central, window 1, bound 3"},
      {"softsync", "pushes of gradient, central, window 1"},
      {"psgd", "rounds of parameters, localized, window 1, own point"},
      {"rsgd", "rounds of parameters, localized, window 2, parts 8 by train.rsgd.p, own point"},
      {"pqasgd", "rounds of change, localized, window 1, own point"},
      {"easgd", "rounds of parameters, central, window 1, elastic 0.05, own point"},
      {"easgd_async", "pushes of parameters, central, window 1, elastic 0.05, own point"},
  };
  std::vector<std::string> names;
  for (const auto& [name, description] : expected) {
    names.emplace_back(name);
    const pb::Job job = MakeJob(name);
    EXPECT_EQ(Describe(FactsOf(job)), description) << name;
  }
  EXPECT_THAT(names, UnorderedElementsAreArray(AlgorithmNames()));
}

// Laws that hold for every algorithm, period and length of the job.
class RoundLaws : public ::testing::TestWithParam<std::string> {};

TEST_P(RoundLaws, HoldAtEveryStep) {
  for (uint32_t period = 1; period <= 5; ++period) {
    const pb::Job job = MakeJobWithPeriod(GetParam(), period);
    const Facts facts = FactsOf(job);
    for (uint64_t step = 1; step <= 40; ++step) {
      SCOPED_TRACE(testing::Message() << "period " << period << ", step " << step);
      const uint64_t round = facts.RoundOfStep(step);
      ASSERT_GE(round, 1u);
      // The step's round is the first round that closes at the end of the step or later.
      EXPECT_GE(facts.StepOfRound(round), step);
      EXPECT_LT(facts.StepOfRound(round - 1), step);
      EXPECT_LE(round, facts.RoundOfStep(step + 1));
    }
    uint64_t last_end = 0;
    for (uint64_t step = 1; step <= 40; ++step) {
      if (facts.StepOfRound(facts.RoundOfStep(step)) == step) last_end = step;
      EXPECT_EQ(facts.LastRoundEnd(step), facts.has_rounds ? last_end : step) << step;
    }
    for (uint64_t round = 1; round <= 40; ++round) {
      SCOPED_TRACE(testing::Message() << "period " << period << ", round " << round);
      const uint64_t step = facts.StepOfRound(round);
      EXPECT_LE(facts.StepOfRound(round - 1), step);
      if (step == 0) continue;
      EXPECT_LE(facts.RoundOfStep(step), round);
      if (facts.rounds_a_period == 1) {
        EXPECT_EQ(facts.RoundOfStep(step), round);
      }
    }
  }
}

TEST_P(RoundLaws, HoldAtTheEndOfAJob) {
  for (uint32_t period = 1; period <= 5; ++period) {
    const pb::Job job = MakeJobWithPeriod(GetParam(), period);
    const Facts facts = FactsOf(job);
    for (uint64_t steps = 1; steps <= 20; ++steps) {
      SCOPED_TRACE(testing::Message() << "period " << period << ", " << steps << " steps");
      for (uint64_t step = 1; step <= steps; ++step) {
        const uint64_t round = facts.RoundOfStep(step);
        EXPECT_EQ(facts.EndsRound(step, steps), facts.StepOfRound(round, steps) == step);
        // The end of the job does not change rounds that close before it.
        if (facts.StepOfRound(round) <= steps) {
          EXPECT_EQ(facts.StepOfRound(round, steps), facts.StepOfRound(round));
        }
      }
      if (facts.may_cut_period_short) {
        EXPECT_TRUE(facts.EndsRound(steps, steps));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, RoundLaws, ::testing::ValuesIn(AlgorithmNames()),
                         [](const auto& info) { return info.param; });

TEST(Facts, ReadTheKeysThatTheTraitsName) {
  pb::Job job = MakeJob("ssgd");
  job.mutable_train()->mutable_ssgd()->set_backup_workers(2);
  EXPECT_EQ(FactsOf(job).num_backup_workers, 2u);
  job = MakeJob("ssp");
  job.mutable_train()->mutable_ssp()->set_staleness(0);
  EXPECT_EQ(FactsOf(job).max_steps_ahead, 0u);
  job = MakeJob("rsgd");
  job.mutable_train()->mutable_rsgd()->set_p(3);
  EXPECT_EQ(FactsOf(job).num_parts, 3u);
  job = MakeJob("easgd");
  job.mutable_train()->mutable_easgd()->set_alpha(0.25);
  EXPECT_EQ(FactsOf(job).elastic_rate, 0.25);
  job = MakeJob("pqasgd");
  EXPECT_FALSE(FactsOf(job).allows_feedback);
  EXPECT_EQ(FactsOf(job).feedback_key, "train.pqasgd.feedback");
  job.mutable_train()->mutable_pqasgd()->set_feedback(true);
  EXPECT_TRUE(FactsOf(job).allows_feedback);
  job = MakeJob("easgd");
  job.mutable_train()->mutable_easgd()->set_alpha(0.25);
  // A key in the section of another algorithm has no effect.
  job.mutable_train()->mutable_ssgd()->set_backup_workers(2);
  EXPECT_EQ(FactsOf(job).num_backup_workers, 0u);
}

TEST(Facts, SayWhetherTheOptimizersStateIsExchanged) {
  pb::Job job = MakeJob("psgd");
  EXPECT_FALSE(FactsOf(job).averages_state);
  job.mutable_train()->mutable_psgd()->set_at_sync(pb::OptimizerState::reset);
  EXPECT_FALSE(FactsOf(job).averages_state);
  job.mutable_train()->mutable_psgd()->set_at_sync(pb::OptimizerState::average);
  EXPECT_TRUE(FactsOf(job).averages_state);
}

TEST(Facts, HaveAnOuterOptimizerOnlyIfTheJobHasItsSection) {
  for (const std::string name : {"psgd", "pqasgd"}) {
    pb::Job job = MakeJob(name);
    EXPECT_EQ(FactsOf(job).outer_optimizer, nullptr);
    auto* section = MutableSection(&job);
    section->GetReflection()->MutableMessage(section,
                                             section->GetDescriptor()->FindFieldByName("outer"));
    const Facts facts = FactsOf(job);
    ASSERT_NE(facts.outer_optimizer, nullptr);
    EXPECT_EQ(facts.outer_optimizer->name(), "nesterov");
    EXPECT_EQ(facts.outer_optimizer->learning_rate(), 0.7);
    EXPECT_EQ(facts.outer_optimizer->momentum(), 0.9);
    EXPECT_EQ(facts.outer_optimizer_key, "train." + name + ".outer");
  }
}

TEST(Facts, OnlyDelayCompensationIsATerm) {
  for (const char* name : {"ssgd", "odsgd", "asgd", "ssp", "softsync", "easgd_async"}) {
    const pb::Job job = MakeJob(name);
    EXPECT_FALSE(FactsOf(job).has_term) << name;
  }
}

// The term is the delay compensation that DC-ASGD adds to a gradient. By default the servers
// compute the term if all codecs send values (the argument of WorkersFormTerm), else the workers.
// A job can override this.
TEST(Facts, LetTheCodecsDecideWhoFormsTheTermByDefault) {
  for (const char* name : {"dcasgd_c", "dcasgd_a"}) {
    pb::Job job = MakeJob(name);
    EXPECT_TRUE(FactsOf(job).has_term);
    EXPECT_FALSE(FactsOf(job).WorkersFormTerm(true));
    EXPECT_TRUE(FactsOf(job).WorkersFormTerm(false));
    for (const bool on_worker : {false, true}) {
      pb::Dcasgd* section = static_cast<pb::Dcasgd*>(MutableSection(&job));
      section->set_compensation(on_worker ? pb::Dcasgd::on_worker : pb::Dcasgd::on_server);
      for (const bool codecs_send_values : {false, true})
        EXPECT_EQ(FactsOf(job).WorkersFormTerm(codecs_send_values), on_worker);
    }
  }
}

TEST(Facts, ApplyByBucketOnlyIfNoWorkerCanJoinBetweenBuckets) {
  pb::Job job = MakeJob("ssgd");
  EXPECT_TRUE(FactsOf(job).applies_in_forward);
  job.mutable_exchange()->set_overlap(false);
  EXPECT_TRUE(FactsOf(job).applies_by_bucket);
  EXPECT_FALSE(FactsOf(job).applies_in_forward);
  job.clear_exchange();
  for (const auto loss : {pb::Faults::wait, pb::Faults::shrink}) {
    job.mutable_faults()->set_on_worker_loss(loss);
    EXPECT_FALSE(FactsOf(job).applies_by_bucket);
    EXPECT_FALSE(FactsOf(job).applies_in_forward);
  }
  job.clear_faults();
  job.mutable_train()->set_parameters(pb::Train::central);
  EXPECT_FALSE(FactsOf(job).applies_by_bucket);
}

TEST(Facts, CountThePushesOfAJob) {
  const pb::Job job = MakeJobWithPeriod("asgd", 4);
  const Facts facts = FactsOf(job);
  EXPECT_EQ(facts.PushesOfJob(10, 3),
            8u);  // the workers make 30 steps, 4 per push; the last push has 2
  EXPECT_EQ(facts.PushesOfJob(12, 3), 9u);
  EXPECT_EQ(facts.StepsOfPushes(8, 3), 10u);
  EXPECT_EQ(facts.StepsOfPushes(9, 3), 12u);
  const pb::Job push_per_step = MakeJob("ssp");
  EXPECT_EQ(FactsOf(push_per_step).PushesOfJob(10, 3), 30u);
  EXPECT_EQ(FactsOf(push_per_step).StepsOfPushes(30, 3), 10u);
}

TEST(Facts, OfAnUnknownAlgorithmAreTheDefaults) {
  pb::Job job;
  job.mutable_train()->set_algorithm("nonesuch");
  EXPECT_EQ(Describe(FactsOf(job)), "rounds of gradient, localized, window 1");
  EXPECT_EQ(FactsOf(job).StepOfRound(7), 7u);
}

// Traits name keys of the algorithm's section. The name of a missing key would abort a process of
// the job.
TEST(Traits, NameExistingKeysOfTheExpectedTypes) {
  for (const std::string& name : AlgorithmNames()) {
    const pb::Job job = MakeJob(name);
    const pb::AlgorithmTraits& traits = *TraitsOf(job.train());
    const auto expect_key = [&](const std::string& key, FieldDescriptor::CppType type) {
      if (key.empty()) return;
      const FieldDescriptor* field = FieldOfKey(job, key);
      ASSERT_NE(field, nullptr) << name << ": " << key;
      EXPECT_EQ(field->cpp_type(), type) << name << ": " << key;
      EXPECT_FALSE(field->is_repeated()) << name << ": " << key;
    };
    expect_key(traits.period_key(), FieldDescriptor::CPPTYPE_UINT32);
    expect_key(traits.parts_key(), FieldDescriptor::CPPTYPE_UINT32);
    expect_key(traits.feedback_key(), FieldDescriptor::CPPTYPE_BOOL);
    expect_key(traits.overlap_key(), FieldDescriptor::CPPTYPE_BOOL);
    expect_key(traits.backup_key(), FieldDescriptor::CPPTYPE_UINT32);
    expect_key(traits.bound_key(), FieldDescriptor::CPPTYPE_UINT32);
    expect_key(traits.elastic_key(), FieldDescriptor::CPPTYPE_DOUBLE);
    expect_key(traits.state_key(), FieldDescriptor::CPPTYPE_ENUM);
    expect_key(traits.term_key(), FieldDescriptor::CPPTYPE_ENUM);
    if (traits.has_state_key()) {
      EXPECT_EQ(FieldOfKey(job, traits.state_key())->enum_type(),
                pb::OptimizerState::AtSync_descriptor())
          << name;
    }
    if (traits.has_term_key()) {
      const auto* term_values = FieldOfKey(job, traits.term_key())->enum_type();
      EXPECT_EQ(term_values->value_count(), 2) << name;
      EXPECT_NE(term_values->FindValueByName("on_server"), nullptr) << name;
      EXPECT_NE(term_values->FindValueByName("on_worker"), nullptr) << name;
    }
    EXPECT_GE(traits.rounds_a_period(), 1u) << name;
    EXPECT_GE(traits.window(), 1u) << name;
    EXPECT_GE(traits.holding_size(), 1) << name;
    // The computations of Facts assume what the next line checks.
    EXPECT_LT(traits.ahead(), traits.window()) << name;
  }
}

}  // namespace
}  // namespace tern::algorithm
