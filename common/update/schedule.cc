#include "common/update/schedule.h"

#include <algorithm>
#include <cmath>

#include "common/base/text.h"

namespace tern::update {
namespace {

Status Bad(const std::string& key, const std::string& seen, const std::string& expected) {
  return Status(Code::kBadJob, "train.schedule." + key + " is " + seen + ", expected " + expected);
}

Status CheckPositive(const std::string& key, double value) {
  if (value > 0 && std::isfinite(value)) return Ok();
  return Bad(key, std::to_string(value), "a finite number above 0");
}

Status CheckNothing(const pb::Schedule&, uint64_t) { return Ok(); }

double Fixed(const pb::Schedule& def, uint64_t, uint64_t) { return def.learning_rate(); }

Status CheckStep(const pb::Schedule& def, uint64_t) {
  if (def.step_every() == 0)
    return Bad("step_every", "missing", "the number of steps between two falls of the rate");
  return CheckPositive("gamma", def.gamma());
}

double Step(const pb::Schedule& def, uint64_t step, uint64_t) {
  return def.learning_rate() * std::pow(def.gamma(), static_cast<double>(step / def.step_every()));
}

Status CheckPoly(const pb::Schedule& def, uint64_t steps) {
  if (steps == 0)
    return Status(Code::kBadJob,
                  "train.schedule poly falls to 0 at the last step: the job needs steps");
  return CheckPositive("power", def.power());
}

double Poly(const pb::Schedule& def, uint64_t step, uint64_t steps) {
  const double done = static_cast<double>(std::min(step, steps)) / static_cast<double>(steps);
  return def.learning_rate() * std::pow(1 - done, def.power());
}

struct Row {
  const char* name;
  Status (*check)(const pb::Schedule& def, uint64_t steps);
  double (*rate)(const pb::Schedule& def, uint64_t step, uint64_t steps);
};

const Row kTable[] = {
    {"fixed", CheckNothing, Fixed},
    {"step", CheckStep, Step},
    {"poly", CheckPoly, Poly},
};

}  // namespace

const std::vector<std::string>& ScheduleNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Row& row : kTable) all.emplace_back(row.name);
    return all;
  }();
  return names;
}

Result<Schedule> Schedule::Make(const pb::Schedule& def, uint64_t steps) {
  for (const Row& row : kTable) {
    if (def.name() != row.name) continue;
    TERN_RETURN_IF_ERROR(CheckPositive("learning_rate", def.learning_rate()));
    TERN_RETURN_IF_ERROR(row.check(def, steps));
    return Schedule(row.rate, def, steps);
  }
  return Bad("name", "'" + def.name() + "'", "one of " + Join(ScheduleNames()));
}

double Schedule::Rate(uint64_t step) const { return rule_(def_, step, steps_); }

double EmaDecay(double decay, uint64_t t) {
  const auto done = static_cast<double>(t);
  return std::min(decay, (1 + done) / (10 + done));
}

}  // namespace tern::update
