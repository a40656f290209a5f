#include "setup/job_position.h"

#include <algorithm>

#include "common/base/text.h"
#include "setup/setup.h"

namespace tern::setup {

void JobPosition::Update(uint64_t steps, uint64_t beginning,
                         const std::vector<WorkerStatus>& workers) {
  if (steps != 0) steps_ = steps;
  if (beginning != beginning_) {
    worker_steps_.clear();
    resumed_from_ = 0;
  }
  beginning_ = beginning;
  for (const WorkerStatus& worker : workers) {
    if (!worker.is_present || worker.is_joining) continue;
    const pb::Counters& counters = worker.counters;
    std::optional<uint64_t>& steps_of_worker = worker_steps_[worker.rank];
    if (counters.has_job_step() || counters.rounds() > 0) {
      steps_of_worker = std::max(steps_of_worker.value_or(0),
                                 counters.has_job_step() ? counters.job_step() : counters.rounds());
    }
    resumed_from_ = std::max(resumed_from_, counters.from_step());
  }
  const uint64_t steps_of_job = StepsOfJob();
  if (steps_of_job != 0) steps_done_ = steps_of_job;
}

uint64_t JobPosition::StepsOfJob() const {
  uint64_t most = 0, sum = 0;
  for (const auto& [rank, steps] : worker_steps_) {
    if (!has_rounds_ && !steps.has_value()) return 0;
    most = std::max(most, steps.value_or(0));
    sum += steps.value_or(0);
  }
  if (has_rounds_ || worker_steps_.empty()) return most;
  const uint64_t mean = sum / worker_steps_.size();
  return steps_ == 0 ? mean : std::min(mean, steps_);
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
