// Learning rate as a function of the step, in double. Steps are counted from 0 (the first update
// uses Rate(0)). Computed by shard 0 alone and sent with its answers, so that no two machines'
// mathematics libraries can differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::update {

class Schedule {
 public:
  // `steps` is the length of the job. kBadJob for an unknown name or a missing argument.
  static Result<Schedule> Make(const pb::Schedule& def, uint64_t steps);
  double Rate(uint64_t step)
      const;  // fixed, step: lr * gamma^floor(step / every), poly: lr * (1 - step / steps)^power

 private:
  using Rule = double (*)(const pb::Schedule& def, uint64_t step, uint64_t steps);
  Schedule(Rule rule, const pb::Schedule& def, uint64_t steps)
      : rule_(rule), def_(def), steps_(steps) {}

  Rule rule_;
  pb::Schedule def_;
  uint64_t steps_;
};

const std::vector<std::string>& ScheduleNames();

// Moving average of the weights (EMA): min(decay, (1 + t) / (10 + t)), t the number of updates done
// before.
double EmaDecay(double decay, uint64_t t);

}  // namespace tern::update
