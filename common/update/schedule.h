// The learning rate as a function of the step, in double precision. Steps count from 0 (the first
// update uses Rate(0)). If replicas must agree, only server shard 0 computes the rate and sends it
// to the workers, because the mathematics libraries of two machines may give different bits.
//
//   fixed        rate
//   step         rate gamma ^ floor(s / step_every)
//   multistep    rate gamma ^ (number of milestones <= s)
//   poly         rate (1 - u) ^ power
//   exponential  rate gamma ^ (s' / step_every)
//   cosine       half a cosine over u, from rate to last
//   one_cycle    half a cosine from rate / div_factor to rate while u < pct_start, then half a
//                cosine from rate to last; with anneal: linear, straight lines
//
// `rate` is learning_rate, times batch_total / linear_scaling_batch if the job has that key. `last`
// is rate / total_div_factor, or 0 without that key. Other names with _ are keys of train.schedule.
// s is the step of the job. With a warm-up of W steps, s' = s - W (0 during the warm-up), and u is
// s' divided by the number of steps after the warm-up, at most 1. So schedules that use u span the
// steps after the warm-up, while `step` and `multistep` count the job's steps, as papers do. Before
// step W the rate is that of the schedule times f + (1 - f) s / W, where f is warmup_start_factor.
// A growing batch (train.batch_growth) does not change the rate: jobs use a growing batch in place
// of a falling rate.
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
  // Makes the schedule that train.schedule describes, for a job of `steps` steps. Returns kBadJob
  // for an unknown name, or a missing or invalid key.
  static Result<Schedule> Make(const pb::Train& train, uint64_t steps);
  // The learning rate of a step, counted from 0.
  double Rate(uint64_t step) const;

 private:
  struct Position {
    uint64_t step;              // s of the comment at the top of this file
    double steps_after_warmup;  // s'
    double fraction;            // u
  };
  // Computes the learning rate of a schedule without warm-up, divided by base_rate_.
  using Factor = double (*)(const pb::Schedule& keys, const Position& position);
  struct Entry;
  static const std::vector<Entry>& Table();
  friend const std::vector<std::string>& ScheduleNames();

  Schedule(Factor factor, const pb::Train& train, uint64_t steps);

  Factor factor_;
  pb::Schedule keys_;
  double base_rate_;  // `rate` of the comment at the top of this file
  uint64_t num_steps_;
};

const std::vector<std::string>& ScheduleNames();

}  // namespace tern::update
