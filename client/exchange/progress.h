// The counters of a worker's training. The training threads write them; the net thread and the
// metrics page read them.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/base/clock.h"
#include "common/base/counters.h"
#include "proto/wire.pb.h"

namespace tern::client {

struct Progress {
  explicit Progress(Registry& registry)
      : rounds(registry.GetCounter("tern_worker_rounds_total", "Steps done")),
        steps(registry.GetCounter("tern_worker_steps_total", "Gradients computed")),
        samples(registry.GetCounter("tern_worker_samples_total", "Training samples computed")),
        push_bytes(registry.GetCounter("tern_worker_push_payload_bytes_total",
                                       "Bytes of codes handed to the network")),
        num_clamped(registry.GetCounter("tern_worker_clamped_total",
                                        "Values above the scaler of an earlier round")),
        compute_time(registry.GetTimeCounter("tern_worker_compute_seconds_total",
                                             "Time in forward and backward")),
        encode_time(registry.GetTimeCounter("tern_worker_encode_seconds_total",
                                            "Time of the coder thread in statistics and encoding")),
        decode_time(registry.GetTimeCounter("tern_worker_decode_seconds_total",
                                            "Time in decoding and updating")),
        wait_time(
            registry.GetTimeCounter("tern_worker_wait_seconds_total",
                                    "Time of the compute thread waiting for sums, at the start "
                                    "and in evaluations, too")),
        checkpoints(registry.GetCounter("tern_worker_checkpoints_total", "Checkpoints written")),
        checkpoint_failures(registry.GetCounter("tern_worker_checkpoint_failures_total",
                                                "Checkpoints that could not be written")),
        checkpoint_time(
            registry.GetTimeCounter("tern_worker_checkpoint_seconds_total",
                                    "Time of the compute thread in writing checkpoints")),
        data_time(registry.GetTimeCounter("tern_worker_data_seconds_total",
                                          "Time of the compute thread waiting for samples")),
        train_time(registry.GetTimeCounter("tern_worker_train_seconds_total",
                                           "Wall time of the training rounds")),
        loss(registry.GetGauge("tern_worker_loss", "Loss of the newest step")),
        learning_rate(
            registry.GetGauge("tern_worker_learning_rate", "Learning rate of the newest round")) {}

  Counter &rounds, &steps, &samples, &push_bytes, &num_clamped;
  TimeCounter &compute_time, &encode_time, &decode_time, &wait_time;
  Counter &checkpoints, &checkpoint_failures;
  TimeCounter &checkpoint_time, &data_time, &train_time;
  Gauge &loss, &learning_rate;
  // job_step: how many of the job's steps the weights include. from_step: the step of the
  // checkpoint from which all workers last continued, or 0.
  std::atomic<uint64_t> job_step{0}, from_step{0};
  std::atomic<uint64_t> checkpoint_step{0};       // of the newest checkpoint written; 0: none
  std::atomic<Time> checkpoint_at{Time::zero()};  // when it was written (Now()); zero: never
  // The newest evaluation: how many of its `num_to_evaluate` test samples the worker has evaluated.
  std::atomic<uint64_t> num_evaluated{0}, num_to_evaluate{0};
  std::atomic<uint64_t> num_advances{0};  // grows whenever the compute thread makes progress
  std::atomic<bool> is_waiting{true};     // whether the compute thread waits for an event
  // Whether it waits for a foreign program (client/guest/), which may take as long as it wants.
  std::atomic<bool> is_waiting_for_program{false};
  // Since when the compute thread has planned the worker's network (Now()); zero: it does not. That
  // may take minutes on a GPU, and other processes of the host may plan before it.
  std::atomic<Time> planning_since{Time::zero()};
  // Items of work that were given to the coder thread, and those that it has finished.
  std::atomic<uint64_t> num_coder_items{0}, num_coded_items{0};

  // Whether the worker waits for others: for servers or other workers, if its compute thread has no
  // event to handle (`num_events` are queued) and its coder thread has nothing to do; or for a
  // program, or for plans, which shard 0 watches.
  bool WaitsForOthers(size_t num_events) const {
    return is_waiting_for_program || planning_since.load() != Time::zero() ||
           (is_waiting && num_events == 0 && CoderIsIdle());
  }
  bool CoderIsIdle() const { return num_coder_items == num_coded_items; }
  // Grows whenever one of the two threads makes progress.
  uint64_t NumAdvances() const { return num_advances + num_coded_items; }
  void CountAdvance() { num_advances.fetch_add(1, std::memory_order_relaxed); }
};

}  // namespace tern::client
