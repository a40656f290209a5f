#include "tools/forecast/step_simulation.h"

#include <algorithm>
#include <utility>

#include "tools/forecast/cluster.h"
#include "tools/forecast/simulated_exchange.h"

namespace tern::tools {

namespace {

// Runs the compute threads of the workers: forward, backward and update, step after step. A bucket
// is a group of neighbouring tensors that are pushed together. Bucket 0 has the last layers.
class StepSimulation {
 public:
  StepSimulation(const StepCosts& costs, const Profile& profile, uint32_t workers,
                 const Network& network)
      : costs_(costs),
        pattern_(costs.pattern),
        cluster_(loop_, costs.lane_counts, profile, workers, network),
        exchange_(cluster_, costs, profile, [this](SimulatedWorker* worker) { OnAnswer(worker); }) {
  }

  Result<StepForecast> Run() {
    size_t num_messages = cluster_.workers().size();
    for (const BucketCost& bucket : costs_.buckets)
      num_messages += bucket.chunks.size() * cluster_.workers().size();
    const bool is_large = num_messages > 20000;
    const uint64_t num_warm_up_steps = (is_large ? 2 : 4) * StepsPerCycle(),
                   num_measured_steps = (is_large ? 2 : 8) * StepsPerCycle();
    for (const auto& worker : cluster_.workers()) BeginStep(worker.get());
    SimulatedWorker& observed_worker = *cluster_.workers()[0];
    if (!loop_.RunUntil(
            [&] { return observed_worker.step > num_warm_up_steps + num_measured_steps; }))
      return Status(Code::kInternal, "the simulated step came to a standstill");
    StepForecast forecast;
    forecast.step_s = (observed_worker.step_begin_times[num_warm_up_steps + num_measured_steps] -
                       observed_worker.step_begin_times[num_warm_up_steps]) /
                      static_cast<double>(num_measured_steps);
    forecast.compute_s =
        observed_worker.compute_s / static_cast<double>(observed_worker.num_computed_steps);
    if (observed_worker.num_finished_exchanges > 0) {
      forecast.exchange_s =
          observed_worker.exchange_s / static_cast<double>(observed_worker.num_finished_exchanges);
      forecast.busy_s =
          observed_worker.busy_s / static_cast<double>(observed_worker.num_finished_exchanges);
    }
    return forecast;
  }

 private:
  // Returns the number of steps after which the pattern of pushes repeats.
  uint64_t StepsPerCycle() const {
    return pattern_.period * (pattern_.sends_one_bucket ? costs_.buckets.size() : 1);
  }
  uint64_t RoundOf(uint64_t step) const { return step / pattern_.period; }
  bool HasExchange(uint64_t step) const { return step % pattern_.period == 0; }

  void BeginStep(SimulatedWorker* worker) {
    const uint64_t step = ++worker->step;
    worker->step_begin_times.push_back(loop_.now());
    if (pattern_.push_time == StepPattern::PushTime::kBeforeCompute && HasExchange(step))
      exchange_.PushRound(worker, RoundOf(step));
    worker->compute_begin = loop_.now();
    worker->blocked_s = 0;
    RunForwardFrom(worker, costs_.buckets.size(), 0);
  }

  // Continues the forward pass after `done_s` seconds of compute. Layers need the buckets in
  // descending order; bucket `num_buckets_left` - 1 is the next one.
  void RunForwardFrom(SimulatedWorker* worker, size_t num_buckets_left, double done_s) {
    if (worker->open_round == 0) return RunBackwardFrom(worker, 0, done_s);
    if (num_buckets_left == 0) {
      ForgetAnswers(worker, std::exchange(worker->open_round, 0));
      return RunBackwardFrom(worker, 0, done_s);
    }
    worker->forward_s = std::max(done_s, costs_.buckets[num_buckets_left - 1].need_s);
    RunCompute(worker, done_s, worker->forward_s, [this, worker, num_buckets_left] {
      worker->needed_bucket = num_buckets_left - 1;
      worker->blocked_since = loop_.now();
      ContinueForward(worker);
    });
  }

  // If the bucket that the forward pass needs has its answers, applies it and continues the pass.
  // Otherwise applies the other buckets that have their answers.
  void ContinueForward(SimulatedWorker* worker) {
    if (!worker->needed_bucket.has_value()) return;
    const size_t needed_bucket = *worker->needed_bucket;
    if (!ApplyIfAnswered(worker, worker->open_round, needed_bucket)) {
      for (size_t b = 0; b < costs_.buckets.size(); ++b)
        ApplyIfAnswered(worker, worker->open_round, b);
      return;
    }
    worker->needed_bucket.reset();
    worker->compute_thread.AddTask(0, [this, worker, needed_bucket] {
      worker->blocked_s += loop_.now() - worker->blocked_since;
      RunForwardFrom(worker, needed_bucket, worker->forward_s);
    });
  }

  // Runs the part of the step's compute between two points. `begin_s` and `end_s` are the seconds
  // of compute from the beginning of the step to these points.
  void RunCompute(SimulatedWorker* worker, double begin_s, double end_s, Callback on_done) {
    if (costs_.threads > 0)
      return worker->compute_thread.AddTask(end_s - begin_s, std::move(on_done), costs_.threads);
    // With the job setting `compute: wait` the compute ends at a fixed time, even if the thread did
    // other work in between.
    const double end_time = worker->compute_begin + worker->blocked_s + end_s;
    loop_.ScheduleAt(std::max(end_time, loop_.now()), std::move(on_done));
  }

  // Continues the backward pass after `done_s` seconds of compute. `next_bucket` is the one
  // whose gradient will be ready next.
  void RunBackwardFrom(SimulatedWorker* worker, size_t next_bucket, double done_s) {
    const bool pushes_in_backward = pattern_.push_time == StepPattern::PushTime::kInBackward;
    const bool is_last = !pushes_in_backward || next_bucket == costs_.buckets.size();
    const double end_s =
        is_last ? costs_.compute_s : std::max(done_s, costs_.buckets[next_bucket].ready_s);
    RunCompute(worker, done_s, end_s, [this, worker, next_bucket, end_s, is_last] {
      if (is_last) return OnComputeEnd(worker);
      exchange_.PushBucket(worker, RoundOf(worker->step), next_bucket);
      worker->compute_thread.AddTask(
          costs_.buckets[next_bucket].copy_s,
          [this, worker, next_bucket, end_s] { RunBackwardFrom(worker, next_bucket + 1, end_s); });
    });
  }

  void OnComputeEnd(SimulatedWorker* worker) {
    worker->compute_s += loop_.now() - worker->compute_begin - worker->blocked_s;
    ++worker->num_computed_steps;
    worker->compute_thread.AddTask(pattern_.updates_after_answers ? 0 : pattern_.local_s,
                                   [this, worker] {
                                     if (!HasExchange(worker->step)) return BeginStep(worker);
                                     if (!pattern_.pulls_first) return Exchange(worker);
                                     exchange_.PullWeights(worker, RoundOf(worker->step));
                                     worker->awaits_weights = true;
                                   });
  }

  // Continues a step that pulls weights before it pushes, if it has them all.
  void ContinueAfterPull(SimulatedWorker* worker) {
    if (!worker->awaits_weights) return;
    double install_s = pattern_.term_s;
    for (size_t b = 0; b < costs_.buckets.size(); ++b) {
      if (!exchange_.HasAnswer(worker, SimulatedExchange::kPullRound, b)) return;
      install_s += costs_.buckets[b].apply_s;
    }
    worker->awaits_weights = false;
    ForgetAnswers(worker, SimulatedExchange::kPullRound);
    worker->compute_thread.AddTask(install_s, [this, worker] { Exchange(worker); });
  }

  void Exchange(SimulatedWorker* worker) {
    const uint64_t round = RoundOf(worker->step);
    if (pattern_.push_time == StepPattern::PushTime::kAfterCompute)
      exchange_.PushRound(worker, round);
    if (pattern_.waits_in_forward) {
      worker->open_round = round;
      return BeginStep(worker);
    }
    worker->awaits_answers = true;
    FinishStep(worker);
  }

  void OnAnswer(SimulatedWorker* worker) {
    ContinueAfterPull(worker);
    FinishStep(worker);
    ContinueForward(worker);
  }

  // Begins the next step if this step has all the answers for which it waits.
  void FinishStep(SimulatedWorker* worker) {
    if (!worker->awaits_answers) return;
    const uint64_t own_round = RoundOf(worker->step);
    const uint64_t round = own_round - std::min(own_round, pattern_.lag);
    double update_s = pattern_.updates_after_answers ? pattern_.local_s : 0;
    if (round > 0 && !ApplyAnswers(worker, round, &update_s)) return;
    worker->awaits_answers = false;
    ForgetAnswers(worker, round);
    worker->compute_thread.AddTask(update_s, [this, worker] { BeginStep(worker); });
  }

  // Returns whether all buckets of a round are answered. If the pattern applies bucket by bucket,
  // applies the answered ones. Otherwise adds the time to apply all buckets to `update_s`.
  bool ApplyAnswers(SimulatedWorker* worker, uint64_t round, double* update_s) {
    bool all_answered = true;
    const auto [first, end] = exchange_.BucketRangeOf(round);
    for (size_t b = first; b < end; ++b) {
      if (pattern_.applies_by_bucket) {
        all_answered &= ApplyIfAnswered(worker, round, b);
      } else {
        all_answered &= exchange_.HasAnswer(worker, round, b);
        *update_s += costs_.buckets[b].apply_s;
      }
    }
    return all_answered;
  }

  // Applies a bucket if it has its answer and is not applied yet. Returns whether it is applied.
  bool ApplyIfAnswered(SimulatedWorker* worker, uint64_t round, size_t bucket) {
    worker->bucket_is_applied.resize(costs_.buckets.size());
    if (worker->bucket_is_applied[bucket]) return true;
    if (!exchange_.HasAnswer(worker, round, bucket)) return false;
    worker->compute_thread.AddTask(costs_.buckets[bucket].apply_s, nullptr);
    worker->bucket_is_applied[bucket] = true;
    return true;
  }

  void ForgetAnswers(SimulatedWorker* worker, uint64_t round) {
    exchange_.OnRoundApplied(worker, round);
    worker->bucket_is_applied.clear();
  }

  const StepCosts& costs_;
  const StepPattern& pattern_;
  EventLoop loop_;
  Cluster cluster_;
  SimulatedExchange exchange_;
};

}  // namespace

Result<StepForecast> SimulateStep(const StepCosts& costs, const Profile& profile, uint32_t workers,
                                  const Network& network) {
  return StepSimulation(costs, profile, workers, network).Run();
}

}  // namespace tern::tools
