#include "client/guest/module_compute.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "common/algorithm/ranks.h"

namespace tern::client {

void ModuleCompute::Begin(uint64_t steps_done) {
  // The job may have gone back, while the program computed a step.
  handoff_.DropStep(/*is_computing=*/!tasks_.TakeBack(), progress_);
  await_status_ = Ok();
  step_ = steps_done;
  handoff_.SetStepsDone(steps_done);
  guest_events_.Push({.type = GuestEvent::Type::kReady, .step = steps_done});
}

Result<uint32_t> ModuleCompute::FetchSamples() {
  handoff_.SetStepsDone(step_ - 1);
  if (const Status status = handoff_.end_status(); !status.ok()) return status;
  return algorithm::BatchOfWorker(setup_.job);
}

double ModuleCompute::Forward(const BeforeTensorRead& before_read) {
  for (uint32_t t = 0; before_read && t < setup_.table.parameters.size(); ++t) {
    if (!before_read(t)) return 0;
  }
  std::fill_n(replica_.gradients(), setup_.table.total, 0.f);
  handoff_.OpenStep(step_);
  tasks_.Give({.type = GuestTask::Type::kStep, .step = step_});
  // Meanwhile another worker may need this one's state.
  await_status_ = await_program_([this] { return handoff_.HasStep(); });
  return handoff_.report().loss;
}

void ModuleCompute::Backward(const OnGradientReady& on_ready) {
  await_status_ = handoff_.TakePushed(on_ready, await_program_);
}

Result<Score> ModuleCompute::Evaluate(uint32_t part, uint32_t num_parts, Confusion*) {
  if (!evaluates_) return Score();
  const std::vector<float> point(replica_.point(), replica_.point() + setup_.table.total);
  const std::vector<float> statistics = replica_.statistics();
  ShowEvaluatedWeights();
  progress_.is_waiting_for_program = true;
  const std::optional<Score> score =
      tasks_.Evaluate({.type = GuestTask::Type::kEvaluate, .part = part, .num_parts = num_parts});
  progress_.is_waiting_for_program = false;
  std::copy(point.begin(), point.end(), replica_.point());
  std::copy(statistics.begin(), statistics.end(), replica_.statistics().begin());
  if (score.has_value()) return *score;
  const Status status = handoff_.end_status();
  return status.ok() ? Status(Code::kInternal, "the job ended in an evaluation") : status;
}

void ModuleCompute::ShowEvaluatedWeights() {
  const float* weights = replica_.evaluated_weights();
  if (weights != replica_.point()) std::copy_n(weights, setup_.table.total, replica_.point());
  std::copy(replica_.mean_statistics().begin(), replica_.mean_statistics().end(),
            replica_.statistics().begin());
}

}  // namespace tern::client
