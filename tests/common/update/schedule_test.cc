#include "common/update/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tern::update {
namespace {

pb::Train Def(const std::string& name, double rate = 0.1) {
  pb::Train train;
  train.set_batch_total(256);
  train.mutable_schedule()->set_name(name);
  train.mutable_schedule()->set_learning_rate(rate);
  return train;
}

Schedule Make(const pb::Train& train, uint64_t steps = 100) {
  const auto schedule = Schedule::Make(train, steps);
  EXPECT_TRUE(schedule.ok()) << schedule.status().message();
  return *schedule;
}

TEST(Schedule, FixedIsConstant) {
  const Schedule schedule = Make(Def("fixed"));
  for (uint64_t step : {0, 1, 99, 1000}) EXPECT_EQ(schedule.Rate(step), 0.1);
}

TEST(Schedule, StepFallsByGammaEveryPeriod) {
  pb::Train def = Def("step");
  def.mutable_schedule()->set_step_every(10);
  def.mutable_schedule()->set_gamma(0.5);
  const Schedule schedule = Make(def);
  EXPECT_EQ(schedule.Rate(0), 0.1);
  EXPECT_EQ(schedule.Rate(9), 0.1);
  EXPECT_EQ(schedule.Rate(10), 0.05);
  EXPECT_EQ(schedule.Rate(19), 0.05);
  EXPECT_EQ(schedule.Rate(20), 0.025);
}

TEST(Schedule, MultistepFallsAtItsMilestones) {
  pb::Train def = Def("multistep", 0.8);
  for (uint64_t step : {30, 60, 80}) def.mutable_schedule()->add_milestones(step);
  def.mutable_schedule()->set_gamma(0.5);
  const Schedule schedule = Make(def);
  EXPECT_EQ(schedule.Rate(0), 0.8);
  EXPECT_EQ(schedule.Rate(29), 0.8);
  EXPECT_EQ(schedule.Rate(30), 0.4);
  EXPECT_EQ(schedule.Rate(59), 0.4);
  EXPECT_EQ(schedule.Rate(60), 0.2);
  EXPECT_EQ(schedule.Rate(80), 0.1);
  EXPECT_EQ(schedule.Rate(99), 0.1);
}

TEST(Schedule, PolyFallsToZeroAtTheEnd) {
  const Schedule schedule = Make(Def("poly"));  // power 0.5 is the default
  EXPECT_EQ(schedule.Rate(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.Rate(75), 0.05);
  EXPECT_DOUBLE_EQ(schedule.Rate(99), 0.1 * std::sqrt(0.01));
  EXPECT_EQ(schedule.Rate(100), 0);
  EXPECT_EQ(schedule.Rate(101), 0);
  pb::Train square = Def("poly");
  square.mutable_schedule()->set_power(2);
  EXPECT_DOUBLE_EQ(Make(square).Rate(50), 0.025);
}

TEST(Schedule, ExponentialFallsSmoothly) {
  pb::Train def = Def("exponential");
  def.mutable_schedule()->set_step_every(20);
  def.mutable_schedule()->set_gamma(0.25);
  const Schedule schedule = Make(def);
  EXPECT_EQ(schedule.Rate(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.Rate(10), 0.05);
  EXPECT_DOUBLE_EQ(schedule.Rate(20), 0.025);
  EXPECT_DOUBLE_EQ(schedule.Rate(30), 0.0125);
}

TEST(Schedule, CosineFallsAlongHalfACosine) {
  const Schedule schedule = Make(Def("cosine"));
  EXPECT_EQ(schedule.Rate(0), 0.1);
  EXPECT_NEAR(schedule.Rate(25), 0.1 * 0.85355339059327373, 1e-15);  // (1 + sqrt(1/2)) / 2
  EXPECT_NEAR(schedule.Rate(50), 0.05, 1e-15);
  EXPECT_NEAR(schedule.Rate(75), 0.1 * 0.14644660940672624, 1e-15);
  EXPECT_NEAR(schedule.Rate(100), 0, 1e-15);
  EXPECT_NEAR(schedule.Rate(1000), 0, 1e-15);
  pb::Train to_a_tenth = Def("cosine");
  to_a_tenth.mutable_schedule()->set_total_div_factor(10);
  EXPECT_NEAR(Make(to_a_tenth).Rate(50), 0.055, 1e-15);
  EXPECT_NEAR(Make(to_a_tenth).Rate(100), 0.01, 1e-15);
}

TEST(Schedule, OneCycleRisesAndFalls) {
  pb::Train def = Def("one_cycle");  // default: rises from 1/25 of the rate in 0.3 of the steps
  EXPECT_NEAR(Make(def).Rate(0), 0.004, 1e-15);
  EXPECT_NEAR(Make(def).Rate(15), 0.052, 1e-15);
  EXPECT_NEAR(Make(def).Rate(30), 0.1, 1e-15);
  EXPECT_NEAR(Make(def).Rate(65), 0.05, 1e-15);
  EXPECT_NEAR(Make(def).Rate(100), 0, 1e-15);
  def.mutable_schedule()->set_pct_start(0.5);
  def.mutable_schedule()->set_div_factor(10);
  def.mutable_schedule()->set_total_div_factor(100);
  EXPECT_NEAR(Make(def).Rate(0), 0.01, 1e-15);
  EXPECT_NEAR(Make(def).Rate(25), 0.055, 1e-15);
  EXPECT_NEAR(Make(def).Rate(50), 0.1, 1e-15);
  EXPECT_NEAR(Make(def).Rate(75), 0.0505, 1e-15);
  EXPECT_NEAR(Make(def).Rate(100), 0.001, 1e-15);
  def.mutable_schedule()->set_pct_start(0);
  EXPECT_NEAR(Make(def).Rate(0), 0.1, 1e-15);
  def.mutable_schedule()->set_pct_start(1);
  EXPECT_NEAR(Make(def).Rate(50), 0.055, 1e-15);
  EXPECT_NEAR(Make(def).Rate(100), 0.1, 1e-15);
}

TEST(Schedule, SpansTheStepsAfterTheWarmup) {
  pb::Train def = Def("poly");
  def.mutable_schedule()->set_power(1);
  def.mutable_schedule()->set_warmup_steps(20);
  def.mutable_schedule()->set_warmup_start_factor(0.2);
  const Schedule schedule = Make(def);
  EXPECT_NEAR(schedule.Rate(0), 0.02, 1e-15);
  EXPECT_NEAR(schedule.Rate(10), 0.06, 1e-15);
  EXPECT_NEAR(schedule.Rate(19), 0.096, 1e-15);
  EXPECT_NEAR(schedule.Rate(20), 0.1, 1e-15);
  EXPECT_NEAR(schedule.Rate(60), 0.05, 1e-15);  // half of the 80 steps after the warm-up
  EXPECT_NEAR(schedule.Rate(100), 0, 1e-15);
}

TEST(Schedule, MilestonesCountTheJobsStepsDespiteAWarmup) {
  pb::Train def = Def("multistep");
  def.mutable_schedule()->add_milestones(30);
  def.mutable_schedule()->set_warmup_steps(20);  // the warm-up starts at 0 by default
  EXPECT_EQ(Make(def).Rate(0), 0);
  EXPECT_NEAR(Make(def).Rate(5), 0.025, 1e-15);
  EXPECT_EQ(Make(def).Rate(20), 0.1);
  EXPECT_EQ(Make(def).Rate(29), 0.1);
  EXPECT_NEAR(Make(def).Rate(30), 0.01, 1e-15);
  def = Def("exponential");
  def.mutable_schedule()->set_step_every(10);
  def.mutable_schedule()->set_warmup_steps(20);
  EXPECT_NEAR(Make(def).Rate(10), 0.05, 1e-15);
  EXPECT_EQ(Make(def).Rate(20), 0.1);
  EXPECT_NEAR(Make(def).Rate(30), 0.01, 1e-15);
}

TEST(Schedule, WarmsUpToTheBeginningOfOneCycle) {
  pb::Train def = Def("one_cycle");
  def.mutable_schedule()->set_warmup_steps(10);
  EXPECT_NEAR(Make(def).Rate(5), 0.002, 1e-15);
  EXPECT_NEAR(Make(def).Rate(10), 0.004, 1e-15);
  EXPECT_NEAR(Make(def).Rate(37), 0.1, 1e-15);  // 10 + 0.3 * 90
}

TEST(Schedule, AWarmupLongerThanTheJobNeverEnds) {
  pb::Train def = Def("cosine");
  def.mutable_schedule()->set_warmup_steps(200);
  EXPECT_NEAR(Make(def).Rate(100), 0.05, 1e-15);
}

TEST(Schedule, ScalesLinearlyWithTheBatchOnlyIfAsked) {
  pb::Train def = Def("fixed");
  def.mutable_schedule()->set_linear_scaling_batch(64);
  EXPECT_EQ(Make(def).Rate(0), 0.4);
  def.mutable_schedule()->set_linear_scaling_batch(1024);
  EXPECT_EQ(Make(def).Rate(0), 0.025);
  def.mutable_schedule()->set_linear_scaling_batch(0);
  EXPECT_EQ(Make(def).Rate(0), 0.1);
}

TEST(Schedule, OutlivesItsDefinition) {
  auto def = std::make_unique<pb::Train>(Def("poly"));
  const Result<Schedule> made = Schedule::Make(*def, 4);
  def.reset();
  const Schedule copy = *made;
  EXPECT_DOUBLE_EQ(copy.Rate(3), 0.05);
}

TEST(Schedule, UnknownNamesListTheKnownOnes) {
  const auto schedule = Schedule::Make(Def("polly"), 100);
  ASSERT_FALSE(schedule.ok());
  EXPECT_EQ(schedule.status().code(), Code::kBadJob);
  EXPECT_NE(schedule.status().message().find("fixed, step, multistep, poly"), std::string::npos);
  EXPECT_EQ(ScheduleNames(), (std::vector<std::string>{"fixed", "step", "multistep", "poly",
                                                       "exponential", "cosine", "one_cycle"}));
}

TEST(Schedule, MissingOrInvalidArgumentsAreNamed) {
  // Whether a schedule `name` with this change is refused by naming `key`.
  const auto names = [](const char* name, const std::string& key,
                        void (*change)(pb::Schedule * def)) {
    pb::Train def = Def(name);
    def.mutable_schedule()->set_step_every(10);
    def.mutable_schedule()->add_milestones(10);
    change(def.mutable_schedule());
    const auto schedule = Schedule::Make(def, 100);
    EXPECT_EQ(schedule.status().code(), Code::kBadJob) << key;
    return schedule.status().message().find("train.schedule." + key) != std::string::npos;
  };
  EXPECT_TRUE(names("step", "step_every", [](auto* def) { def->clear_step_every(); }));
  EXPECT_TRUE(names("exponential", "step_every", [](auto* def) { def->clear_step_every(); }));
  EXPECT_TRUE(names("step", "gamma", [](auto* def) { def->set_gamma(0); }));
  EXPECT_TRUE(names("multistep", "gamma", [](auto* def) { def->set_gamma(-1); }));
  EXPECT_TRUE(names("multistep", "milestones", [](auto* def) { def->clear_milestones(); }));
  EXPECT_TRUE(names("multistep", "milestones", [](auto* def) { def->add_milestones(10); }));
  EXPECT_TRUE(names("poly", "power", [](auto* def) { def->set_power(-1); }));
  EXPECT_TRUE(names("cosine", "total_div_factor", [](auto* def) { def->set_total_div_factor(0); }));
  EXPECT_TRUE(names("one_cycle", "pct_start", [](auto* def) { def->set_pct_start(1.5); }));
  EXPECT_TRUE(names("one_cycle", "div_factor", [](auto* def) { def->set_div_factor(0.5); }));
  EXPECT_TRUE(
      names("fixed", "warmup_start_factor", [](auto* def) { def->set_warmup_start_factor(2); }));
  EXPECT_NE(Schedule::Make(Def("poly"), 0).status().message().find("steps"), std::string::npos);
  for (double rate : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto schedule = Schedule::Make(Def("fixed", rate), 100);
    EXPECT_NE(schedule.status().message().find("train.schedule.learning_rate"), std::string::npos);
  }
}

}  // namespace
}  // namespace tern::update
