// Learning rate as a function of the step, in double. Steps are counted from 0 (the first update
// uses Rate(0)). Where replicas must agree, shard 0 alone computes it and sends it with its
// answers, for two machines' mathematics libraries may differ.
//
//   fixed        rate
//   step         rate gamma ^ floor(s / step_every)
//   multistep    rate gamma ^ (number of milestones <= s)
//   poly         rate (1 - u) ^ power
//   exponential  rate gamma ^ (s' / step_every)
//   cosine       from rate to rate / divide_last, or 0 where that is left out: half a cosine over u
//   one_cycle    from rate / divide_first to rate while u < rise, then to rate / divide_last (or
//   0):
//                half a cosine each
//
// s is the step of the job. With a warm-up of W steps, s' = s - W (0 during it) and u = s' over the
// steps that follow it, at most 1: what spans the job spans what the warm-up leaves of it, while
// the steps of `step` and `multistep` are the job's own, as papers give them. Before step W the
// rate is that of the schedule times warmup_from + (1 - warmup_from) s / W. rate is learning_rate,
// times batch_total / linear_scaling_batch where the job has that key. A batch that grows
// (train.batch_growth) takes the place of a rate that falls and does not change it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/update/average.h"
#include "proto/job.pb.h"

namespace tern::update {

class Schedule {
 public:
  // Of train.schedule; `steps` is the length of the job. kBadJob for an unknown name, or an
  // argument that is missing or impossible.
  static Result<Schedule> Make(const pb::Train& train, uint64_t steps);
  double Rate(uint64_t step) const;

 private:
  // s, s' and u.
  struct Place {
    uint64_t step;
    double after_warmup;
    double done;
  };
  using Factor = double (*)(const pb::Schedule& def, const Place& place);
  struct Row;
  static const std::vector<Row>& Table();
  friend const std::vector<std::string>& ScheduleNames();

  Schedule(Factor factor, const pb::Train& train, uint64_t steps);

  Factor factor_;
  pb::Schedule def_;
  double rate_;
  uint64_t steps_;
};

const std::vector<std::string>& ScheduleNames();

}  // namespace tern::update
