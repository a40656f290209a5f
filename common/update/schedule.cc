#include "common/update/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/base/text.h"

namespace tern::update {
namespace {

Status BadValue(const std::string& key, const std::string& seen, const std::string& expected) {
  return Status(Code::kBadJob, "train.schedule." + key + " is " + seen + ", expected " + expected);
}

Status CheckPositive(const std::string& key, double value) {
  if (value > 0 && std::isfinite(value)) return Ok();
  return BadValue(key, std::to_string(value), "a finite number above 0");
}

Status CheckFraction(const std::string& key, double value) {
  if (value >= 0 && value <= 1) return Ok();
  return BadValue(key, std::to_string(value), "a number from 0 to 1");
}

Status CheckDivisor(const std::string& key, double value) {
  if (value >= 1 && std::isfinite(value)) return Ok();
  return BadValue(key, std::to_string(value), "a finite number of at least 1");
}

Status CheckNothing(const pb::Schedule&) { return Ok(); }

Status CheckPeriod(const pb::Schedule& keys) {
  if (keys.step_every() == 0)
    return BadValue("step_every", "missing",
                    "the number of steps in which the rate falls by gamma");
  return CheckPositive("gamma", keys.gamma());
}

Status CheckMilestones(const pb::Schedule& keys) {
  if (keys.milestones_size() == 0)
    return BadValue("milestones", "empty", "the steps at which the rate falls by gamma");
  for (int i = 1; i < keys.milestones_size(); ++i) {
    if (keys.milestones(i) <= keys.milestones(i - 1))
      return BadValue("milestones", "not rising at " + std::to_string(keys.milestones(i)),
                      "each step later than the one before");
  }
  return CheckPositive("gamma", keys.gamma());
}

Status CheckPoly(const pb::Schedule& keys) { return CheckPositive("power", keys.power()); }

Status CheckCosine(const pb::Schedule& keys) {
  return keys.has_total_div_factor() ? CheckDivisor("total_div_factor", keys.total_div_factor())
                                     : Ok();
}

Status CheckOneCycle(const pb::Schedule& keys) {
  TERN_RETURN_IF_ERROR(CheckFraction("pct_start", keys.pct_start()));
  TERN_RETURN_IF_ERROR(CheckDivisor("div_factor", keys.div_factor()));
  return CheckCosine(keys);
}

// Returns a value that goes from `from` to `to` along half a cosine as t goes from 0 to 1.
double HalfCosine(double from, double to, double t) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * t));
}

// The same along a straight line.
double Line(double from, double to, double t) { return from + (to - from) * t; }

// The learning rate at the end of `cosine` and `one_cycle`, divided by the highest rate.
double FinalFactor(const pb::Schedule& keys) {
  return keys.has_total_div_factor() ? 1 / keys.total_div_factor() : 0;
}

}  // namespace

// One schedule: its name, the check of its keys, and the function that computes its factor.
struct Schedule::Entry {
  const char* name;
  Status (*check)(const pb::Schedule& keys);
  Factor factor;

  static double Fixed(const pb::Schedule&, const Position&) { return 1; }
  static double Step(const pb::Schedule& keys, const Position& position) {
    return std::pow(keys.gamma(), static_cast<double>(position.step / keys.step_every()));
  }
  static double Multistep(const pb::Schedule& keys, const Position& position) {
    const auto num_passed = std::count_if(keys.milestones().begin(), keys.milestones().end(),
                                          [&](uint64_t step) { return step <= position.step; });
    return std::pow(keys.gamma(), static_cast<double>(num_passed));
  }
  static double Poly(const pb::Schedule& keys, const Position& position) {
    return std::pow(1 - position.fraction, keys.power());
  }
  static double Exponential(const pb::Schedule& keys, const Position& position) {
    return std::pow(keys.gamma(),
                    position.steps_after_warmup / static_cast<double>(keys.step_every()));
  }
  static double Cosine(const pb::Schedule& keys, const Position& position) {
    return HalfCosine(1, FinalFactor(keys), position.fraction);
  }
  static double OneCycle(const pb::Schedule& keys, const Position& position) {
    const double rise_end = keys.pct_start();
    const auto anneal = keys.anneal() == pb::Schedule::linear ? Line : HalfCosine;
    return position.fraction < rise_end
               ? anneal(1 / keys.div_factor(), 1, position.fraction / rise_end)
           : rise_end < 1
               ? anneal(1, FinalFactor(keys), (position.fraction - rise_end) / (1 - rise_end))
               : 1;
  }
};

const std::vector<Schedule::Entry>& Schedule::Table() {
  static const std::vector<Entry> table = {
      {"fixed", CheckNothing, Entry::Fixed},
      {"step", CheckPeriod, Entry::Step},
      {"multistep", CheckMilestones, Entry::Multistep},
      {"poly", CheckPoly, Entry::Poly},
      {"exponential", CheckPeriod, Entry::Exponential},
      {"cosine", CheckCosine, Entry::Cosine},
      {"one_cycle", CheckOneCycle, Entry::OneCycle},
  };
  return table;
}

const std::vector<std::string>& ScheduleNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> names_in_table;
    for (const Schedule::Entry& entry : Schedule::Table()) names_in_table.emplace_back(entry.name);
    return names_in_table;
  }();
  return names;
}

Result<Schedule> Schedule::Make(const pb::Train& train, uint64_t steps) {
  const pb::Schedule& keys = train.schedule();
  for (const Entry& entry : Table()) {
    if (keys.name() != entry.name) continue;
    TERN_RETURN_IF_ERROR(CheckPositive("learning_rate", keys.learning_rate()));
    TERN_RETURN_IF_ERROR(CheckFraction("warmup_start_factor", keys.warmup_start_factor()));
    TERN_RETURN_IF_ERROR(entry.check(keys));
    if (steps == 0)
      return Status(Code::kBadJob, "the job of train.schedule has 0 steps, expected at least 1");
    return Schedule(entry.factor, train, steps);
  }
  return BadValue("name", "'" + keys.name() + "'", "one of " + Join(ScheduleNames()));
}

Schedule::Schedule(Factor factor, const pb::Train& train, uint64_t steps)
    : factor_(factor),
      keys_(train.schedule()),
      base_rate_(keys_.learning_rate()),
      num_steps_(steps) {
  if (keys_.linear_scaling_batch() > 0)
    base_rate_ = base_rate_ * train.batch_total() / keys_.linear_scaling_batch();
}

double Schedule::Rate(uint64_t step) const {
  const uint64_t warmup_steps = keys_.warmup_steps();
  const auto steps_after_warmup =
      static_cast<double>(step > warmup_steps ? step - warmup_steps : 0);
  const auto num_steps_after_warmup =
      static_cast<double>(num_steps_ > warmup_steps ? num_steps_ - warmup_steps : 1);
  const double fraction = std::min(1.0, steps_after_warmup / num_steps_after_warmup);
  double rate = base_rate_ * factor_(keys_, {step, steps_after_warmup, fraction});
  if (step < warmup_steps) {
    const double start_factor = keys_.warmup_start_factor();
    rate *= start_factor +
            (1 - start_factor) * static_cast<double>(step) / static_cast<double>(warmup_steps);
  }
  return rate;
}

}  // namespace tern::update
