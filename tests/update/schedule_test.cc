#include "common/update/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tern::update {
namespace {

pb::Schedule Def(const std::string& name, double rate = 0.1) {
  pb::Schedule def;
  def.set_name(name);
  def.set_learning_rate(rate);
  return def;
}

TEST(Schedule, FixedStays) {
  const auto schedule = Schedule::Make(Def("fixed"), 100);
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  for (uint64_t step : {0, 1, 99, 1000}) EXPECT_EQ(schedule->Rate(step), 0.1);
}

TEST(Schedule, StepFallsByGammaEverySoManySteps) {
  pb::Schedule def = Def("step");
  def.set_step_every(10);
  def.set_gamma(0.5);
  const auto schedule = Schedule::Make(def, 100);
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  EXPECT_EQ(schedule->Rate(0), 0.1);
  EXPECT_EQ(schedule->Rate(9), 0.1);
  EXPECT_EQ(schedule->Rate(10), 0.05);
  EXPECT_EQ(schedule->Rate(19), 0.05);
  EXPECT_EQ(schedule->Rate(20), 0.025);
}

TEST(Schedule, PolyFallsToZeroAtTheEnd) {
  const auto schedule = Schedule::Make(Def("poly"), 100);  // power 0.5 is the default
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  EXPECT_EQ(schedule->Rate(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule->Rate(75), 0.05);
  EXPECT_DOUBLE_EQ(schedule->Rate(99), 0.1 * std::sqrt(0.01));
  EXPECT_EQ(schedule->Rate(100), 0);
  EXPECT_EQ(schedule->Rate(101), 0);
  pb::Schedule square = Def("poly");
  square.set_power(2);
  EXPECT_DOUBLE_EQ(Schedule::Make(square, 100)->Rate(50), 0.025);
}

TEST(Schedule, OutlivesItsDefinition) {
  auto def = std::make_unique<pb::Schedule>(Def("poly"));
  const Result<Schedule> made = Schedule::Make(*def, 4);
  def.reset();
  const Schedule copy = *made;
  EXPECT_DOUBLE_EQ(copy.Rate(3), 0.05);
}

TEST(Schedule, UnknownNamesGetTheKnownOnes) {
  const auto schedule = Schedule::Make(Def("polly"), 100);
  ASSERT_FALSE(schedule.ok());
  EXPECT_EQ(schedule.status().code(), Code::kBadJob);
  EXPECT_NE(schedule.status().message().find("fixed, step, poly"), std::string::npos);
  EXPECT_EQ(ScheduleNames(), (std::vector<std::string>{"fixed", "step", "poly"}));
}

TEST(Schedule, MissingOrImpossibleArgumentsAreNamed) {
  const auto refusal = [](const pb::Schedule& def, uint64_t steps) {
    const auto schedule = Schedule::Make(def, steps);
    EXPECT_EQ(schedule.status().code(), Code::kBadJob);
    return schedule.status().message();
  };
  const auto names = [](const std::string& message, const std::string& key) {
    return message.find("train.schedule." + key) != std::string::npos;
  };
  EXPECT_TRUE(names(refusal(Def("step"), 100), "step_every"));
  pb::Schedule def = Def("step");
  def.set_step_every(10);
  def.set_gamma(0);
  EXPECT_TRUE(names(refusal(def, 100), "gamma"));
  def = Def("poly");
  def.set_power(-1);
  EXPECT_TRUE(names(refusal(def, 100), "power"));
  EXPECT_NE(refusal(Def("poly"), 0).find("steps"), std::string::npos);
  for (double rate : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(names(refusal(Def("fixed", rate), 100), "learning_rate"));
  }
}

TEST(EmaDecay, WarmsUpAndThenStays) {
  EXPECT_DOUBLE_EQ(EmaDecay(0.9999, 0), 0.1);
  EXPECT_DOUBLE_EQ(EmaDecay(0.9999, 8), 0.5);
  EXPECT_DOUBLE_EQ(EmaDecay(0.9999, 100'000), 0.9999);
  EXPECT_DOUBLE_EQ(EmaDecay(0.05, 0), 0.05);
}

}  // namespace
}  // namespace tern::update
