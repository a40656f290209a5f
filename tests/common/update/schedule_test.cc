// Tests of Schedule, which computes the learning rate of each step.
#include "common/update/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tern::update {
namespace {

pb::Train MakeConfig(const std::string& name, double rate = 0.1) {
  pb::Train train;
  train.set_batch_total(256);
  train.mutable_schedule()->set_name(name);
  train.mutable_schedule()->set_learning_rate(rate);
  return train;
}

Schedule MakeSchedule(const pb::Train& train, uint64_t steps = 100) {
  const auto schedule = Schedule::Make(train, steps);
  EXPECT_TRUE(schedule.ok()) << schedule.status().message();
  return *schedule;
}

TEST(Schedule, FixedIsConstant) {
  const Schedule schedule = MakeSchedule(MakeConfig("fixed"));
  for (uint64_t step : {0, 1, 99, 1000}) EXPECT_EQ(schedule.Rate(step), 0.1);
}

TEST(Schedule, StepFallsByGammaEveryPeriod) {
  pb::Train config = MakeConfig("step");
  config.mutable_schedule()->set_step_every(10);
  config.mutable_schedule()->set_gamma(0.5);
  const Schedule schedule = MakeSchedule(config);
  EXPECT_EQ(schedule.Rate(0), 0.1);
  EXPECT_EQ(schedule.Rate(9), 0.1);
  EXPECT_EQ(schedule.Rate(10), 0.05);
  EXPECT_EQ(schedule.Rate(19), 0.05);
  EXPECT_EQ(schedule.Rate(20), 0.025);
}

TEST(Schedule, MultistepFallsAtItsMilestones) {
  pb::Train config = MakeConfig("multistep", 0.8);
  for (uint64_t step : {30, 60, 80}) config.mutable_schedule()->add_milestones(step);
  config.mutable_schedule()->set_gamma(0.5);
  const Schedule schedule = MakeSchedule(config);
  EXPECT_EQ(schedule.Rate(0), 0.8);
  EXPECT_EQ(schedule.Rate(29), 0.8);
  EXPECT_EQ(schedule.Rate(30), 0.4);
  EXPECT_EQ(schedule.Rate(59), 0.4);
  EXPECT_EQ(schedule.Rate(60), 0.2);
  EXPECT_EQ(schedule.Rate(80), 0.1);
  EXPECT_EQ(schedule.Rate(99), 0.1);
}

TEST(Schedule, PolyFallsToZeroAtTheEnd) {
  const Schedule schedule = MakeSchedule(MakeConfig("poly"));  // power 0.5 is the default
  EXPECT_EQ(schedule.Rate(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.Rate(75), 0.05);
  EXPECT_DOUBLE_EQ(schedule.Rate(99), 0.1 * std::sqrt(0.01));
  EXPECT_EQ(schedule.Rate(100), 0);
  EXPECT_EQ(schedule.Rate(101), 0);
  pb::Train config_with_power_2 = MakeConfig("poly");
  config_with_power_2.mutable_schedule()->set_power(2);
  EXPECT_DOUBLE_EQ(MakeSchedule(config_with_power_2).Rate(50), 0.025);
}

TEST(Schedule, ExponentialFallsSmoothly) {
  pb::Train config = MakeConfig("exponential");
  config.mutable_schedule()->set_step_every(20);
  config.mutable_schedule()->set_gamma(0.25);
  const Schedule schedule = MakeSchedule(config);
  EXPECT_EQ(schedule.Rate(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.Rate(10), 0.05);
  EXPECT_DOUBLE_EQ(schedule.Rate(20), 0.025);
  EXPECT_DOUBLE_EQ(schedule.Rate(30), 0.0125);
}

TEST(Schedule, CosineFallsAlongHalfACosine) {
  const Schedule schedule = MakeSchedule(MakeConfig("cosine"));
  EXPECT_EQ(schedule.Rate(0), 0.1);
  EXPECT_NEAR(schedule.Rate(25), 0.1 * 0.85355339059327373, 1e-15);  // (1 + sqrt(1/2)) / 2
  EXPECT_NEAR(schedule.Rate(50), 0.05, 1e-15);
  EXPECT_NEAR(schedule.Rate(75), 0.1 * 0.14644660940672624, 1e-15);
  EXPECT_NEAR(schedule.Rate(100), 0, 1e-15);
  EXPECT_NEAR(schedule.Rate(1000), 0, 1e-15);
  pb::Train config_ending_at_a_tenth = MakeConfig("cosine");
  config_ending_at_a_tenth.mutable_schedule()->set_total_div_factor(10);
  EXPECT_NEAR(MakeSchedule(config_ending_at_a_tenth).Rate(50), 0.055, 1e-15);
  EXPECT_NEAR(MakeSchedule(config_ending_at_a_tenth).Rate(100), 0.01, 1e-15);
}

TEST(Schedule, OneCycleRisesAndFalls) {
  // By default, the rate begins at 1/25 of its top, and rises in the first 0.3 of the steps.
  pb::Train config = MakeConfig("one_cycle");
  EXPECT_NEAR(MakeSchedule(config).Rate(0), 0.004, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(15), 0.052, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(30), 0.1, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(65), 0.05, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(100), 0, 1e-15);
  config.mutable_schedule()->set_pct_start(0.5);
  config.mutable_schedule()->set_div_factor(10);
  config.mutable_schedule()->set_total_div_factor(100);
  EXPECT_NEAR(MakeSchedule(config).Rate(0), 0.01, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(25), 0.055, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(50), 0.1, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(75), 0.0505, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(100), 0.001, 1e-15);
  config.mutable_schedule()->set_pct_start(0);
  EXPECT_NEAR(MakeSchedule(config).Rate(0), 0.1, 1e-15);
  config.mutable_schedule()->set_pct_start(1);
  EXPECT_NEAR(MakeSchedule(config).Rate(50), 0.055, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(100), 0.1, 1e-15);
}

TEST(Schedule, OneCycleMayRiseAndFallAlongLines) {
  pb::Train config = MakeConfig("one_cycle");
  config.mutable_schedule()->set_anneal(pb::Schedule::linear);
  config.mutable_schedule()->set_pct_start(0.2);
  config.mutable_schedule()->set_div_factor(5);
  config.mutable_schedule()->set_total_div_factor(10);
  EXPECT_NEAR(MakeSchedule(config).Rate(0), 0.02, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(5), 0.04, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(20), 0.1, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(40), 0.0775, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(100), 0.01, 1e-15);
}

TEST(Schedule, SpansTheStepsAfterTheWarmup) {
  pb::Train config = MakeConfig("poly");
  config.mutable_schedule()->set_power(1);
  config.mutable_schedule()->set_warmup_steps(20);
  config.mutable_schedule()->set_warmup_start_factor(0.2);
  const Schedule schedule = MakeSchedule(config);
  EXPECT_NEAR(schedule.Rate(0), 0.02, 1e-15);
  EXPECT_NEAR(schedule.Rate(10), 0.06, 1e-15);
  EXPECT_NEAR(schedule.Rate(19), 0.096, 1e-15);
  EXPECT_NEAR(schedule.Rate(20), 0.1, 1e-15);
  // Step 60 is the middle of the 80 steps after the warm-up.
  EXPECT_NEAR(schedule.Rate(60), 0.05, 1e-15);
  EXPECT_NEAR(schedule.Rate(100), 0, 1e-15);
}

TEST(Schedule, MilestonesCountTheJobsStepsDespiteAWarmup) {
  pb::Train config = MakeConfig("multistep");
  config.mutable_schedule()->add_milestones(30);
  config.mutable_schedule()->set_warmup_steps(20);  // the warm-up starts at 0 by default
  EXPECT_EQ(MakeSchedule(config).Rate(0), 0);
  EXPECT_NEAR(MakeSchedule(config).Rate(5), 0.025, 1e-15);
  EXPECT_EQ(MakeSchedule(config).Rate(20), 0.1);
  EXPECT_EQ(MakeSchedule(config).Rate(29), 0.1);
  EXPECT_NEAR(MakeSchedule(config).Rate(30), 0.01, 1e-15);
  config = MakeConfig("step");
  config.mutable_schedule()->set_step_every(30);
  config.mutable_schedule()->set_warmup_steps(20);
  EXPECT_EQ(MakeSchedule(config).Rate(29), 0.1);
  EXPECT_NEAR(MakeSchedule(config).Rate(30), 0.01, 1e-15);
  config = MakeConfig("exponential");
  config.mutable_schedule()->set_step_every(10);
  config.mutable_schedule()->set_warmup_steps(20);
  EXPECT_NEAR(MakeSchedule(config).Rate(10), 0.05, 1e-15);
  EXPECT_EQ(MakeSchedule(config).Rate(20), 0.1);
  EXPECT_NEAR(MakeSchedule(config).Rate(30), 0.01, 1e-15);
}

TEST(Schedule, WarmsUpToTheBeginningOfOneCycle) {
  pb::Train config = MakeConfig("one_cycle");
  config.mutable_schedule()->set_warmup_steps(10);
  EXPECT_NEAR(MakeSchedule(config).Rate(5), 0.002, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(10), 0.004, 1e-15);
  EXPECT_NEAR(MakeSchedule(config).Rate(37), 0.1, 1e-15);  // The top is at step 10 + 0.3 * 90 = 37.
}

TEST(Schedule, AWarmupLongerThanTheJobNeverEnds) {
  pb::Train config = MakeConfig("cosine");
  config.mutable_schedule()->set_warmup_steps(200);
  EXPECT_NEAR(MakeSchedule(config).Rate(100), 0.05, 1e-15);
}

TEST(Schedule, ScalesLinearlyWithTheBatchOnlyIfAsked) {
  pb::Train config = MakeConfig("fixed");
  config.mutable_schedule()->set_linear_scaling_batch(64);
  EXPECT_EQ(MakeSchedule(config).Rate(0), 0.4);
  config.mutable_schedule()->set_linear_scaling_batch(1024);
  EXPECT_EQ(MakeSchedule(config).Rate(0), 0.025);
  config.mutable_schedule()->set_linear_scaling_batch(0);
  EXPECT_EQ(MakeSchedule(config).Rate(0), 0.1);
}

TEST(Schedule, OutlivesItsDefinition) {
  auto config = std::make_unique<pb::Train>(MakeConfig("poly"));
  const Result<Schedule> schedule = Schedule::Make(*config, 4);
  config.reset();
  const Schedule copy = *schedule;
  EXPECT_DOUBLE_EQ(copy.Rate(3), 0.05);
}

TEST(Schedule, UnknownNamesListTheKnownOnes) {
  const auto schedule = Schedule::Make(MakeConfig("polly"), 100);
  ASSERT_FALSE(schedule.ok());
  EXPECT_EQ(schedule.status().code(), Code::kBadJob);
  EXPECT_NE(schedule.status().message().find("fixed, step, multistep, poly"), std::string::npos);
  EXPECT_EQ(ScheduleNames(), (std::vector<std::string>{"fixed", "step", "multistep", "poly",
                                                       "exponential", "cosine", "one_cycle"}));
}

TEST(Schedule, MissingOrInvalidArgumentsAreNamed) {
  // Whether the schedule `name` with this change is refused with an error that names `key`.
  const auto error_names_key = [](const char* name, const std::string& key,
                                  void (*change)(pb::Schedule * config)) {
    pb::Train config = MakeConfig(name);
    config.mutable_schedule()->set_step_every(10);
    config.mutable_schedule()->add_milestones(10);
    change(config.mutable_schedule());
    const auto schedule = Schedule::Make(config, 100);
    EXPECT_EQ(schedule.status().code(), Code::kBadJob) << key;
    return schedule.status().message().find("train.schedule." + key) != std::string::npos;
  };
  EXPECT_TRUE(
      error_names_key("step", "step_every", [](auto* config) { config->clear_step_every(); }));
  EXPECT_TRUE(error_names_key("exponential", "step_every",
                              [](auto* config) { config->clear_step_every(); }));
  EXPECT_TRUE(error_names_key("step", "gamma", [](auto* config) { config->set_gamma(0); }));
  EXPECT_TRUE(error_names_key("multistep", "gamma", [](auto* config) { config->set_gamma(-1); }));
  EXPECT_TRUE(
      error_names_key("multistep", "milestones", [](auto* config) { config->clear_milestones(); }));
  EXPECT_TRUE(
      error_names_key("multistep", "milestones", [](auto* config) { config->add_milestones(10); }));
  EXPECT_TRUE(error_names_key("poly", "power", [](auto* config) { config->set_power(-1); }));
  EXPECT_TRUE(error_names_key("cosine", "total_div_factor",
                              [](auto* config) { config->set_total_div_factor(0); }));
  EXPECT_TRUE(
      error_names_key("one_cycle", "pct_start", [](auto* config) { config->set_pct_start(1.5); }));
  EXPECT_TRUE(error_names_key("one_cycle", "div_factor",
                              [](auto* config) { config->set_div_factor(0.5); }));
  EXPECT_TRUE(error_names_key("fixed", "warmup_start_factor",
                              [](auto* config) { config->set_warmup_start_factor(2); }));
  EXPECT_NE(Schedule::Make(MakeConfig("poly"), 0).status().message().find("steps"),
            std::string::npos);
  for (double rate : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto schedule = Schedule::Make(MakeConfig("fixed", rate), 100);
    EXPECT_NE(schedule.status().message().find("train.schedule.learning_rate"), std::string::npos);
  }
}

}  // namespace
}  // namespace tern::update
