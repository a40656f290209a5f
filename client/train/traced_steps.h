// Decides which steps of a worker are in its trace (common/base/trace.h): as many as TraceSteps()
// says, after kTraceWarmUpSteps; or the first ones if the job has too few. Belongs to the compute
// thread.
#pragma once

#include <cstdint>

#include "common/base/trace.h"

namespace tern::client {

class TracedSteps {
 public:
  // Call before the first step that this process makes, and whenever it goes back to another step.
  // `last_step`: the last step of the job. Only the first call decides.
  void Begin(uint64_t steps_done, uint64_t last_step) {
    if (TraceSteps() == 0 || first_ != 0) return;
    const uint64_t steps_left = last_step - steps_done;
    const bool warms_up = steps_left >= TraceSteps() + kTraceWarmUpSteps;
    first_ = steps_done + 1 + (warms_up ? kTraceWarmUpSteps : 0);
    num_left_ = TraceSteps();
  }
  // Call before each step and all work that precedes it, with the number of the step.
  void OnStep(uint64_t step) {
    if (first_ == 0 || step < first_) return;
    SetTracing(num_left_ != 0);
    if (num_left_ != 0) --num_left_;
  }

 private:
  uint64_t first_ = 0;     // the first step to record; 0: none
  uint64_t num_left_ = 0;  // how many steps are still to be recorded
};

}  // namespace tern::client
