#include "setup/job_position.h"

#include <algorithm>

#include "common/base/text.h"
#include "setup/setup.h"

namespace tern::setup {

void JobPosition::Update(uint64_t steps, uint64_t beginning,
                         const std::vector<WorkerStatus>& workers) {
  if (steps != 0) steps_ = steps;
  if (beginning != beginning_) most_steps_ = resumed_from_ = 0;
  beginning_ = beginning;
  for (const WorkerStatus& worker : workers) {
    if (!worker.is_present || worker.is_joining) continue;
    const pb::Counters& counters = worker.counters;
    most_steps_ =
        std::max(most_steps_, counters.has_job_step() ? counters.job_step() : counters.rounds());
    resumed_from_ = std::max(resumed_from_, counters.from_step());
  }
  if (most_steps_ != 0) steps_done_ = most_steps_;
}

std::string StepText(uint64_t step, uint64_t steps) {
  const bool is_known = steps != 0 && steps != kUnknownSteps;
  return is_known ? Cat("step ", step, " of ", steps) : Cat("step ", step);
}

std::string StatusText(const JobPosition& position, const std::vector<WorkerStatus>& workers) {
  const auto present = std::count_if(workers.begin(), workers.end(),
                                     [](const WorkerStatus& worker) { return worker.is_present; });
  return Cat(StepText(position.steps_done(), position.steps()), ", ", present, " of ",
             workers.size(), " workers");
}

}  // namespace tern::setup
