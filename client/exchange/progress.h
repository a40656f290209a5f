// What a worker counts while it trains. Written by the training threads, read by the net thread and
// the metrics page.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/base/counters.h"
#include "proto/wire.pb.h"

namespace tern::client {

struct Progress {
  explicit Progress(Registry& registry)
      : rounds(registry.GetCounter("tern_worker_rounds_total", "Rounds applied")),
        steps(registry.GetCounter("tern_worker_steps_total", "Gradients computed")),
        samples(registry.GetCounter("tern_worker_samples_total", "Training samples computed")),
        push_bytes(registry.GetCounter("tern_worker_push_payload_bytes_total",
                                       "Bytes of codes handed to the network")),
        clamped(registry.GetCounter("tern_worker_clamped_total",
                                    "Values above a scaler of a round before")),
        compute(registry.GetTimeCounter("tern_worker_compute_seconds_total",
                                        "Time in forward and backward")),
        encode(registry.GetTimeCounter("tern_worker_encode_seconds_total",
                                       "Time of the coder thread in statistics and codes")),
        decode(registry.GetTimeCounter("tern_worker_decode_seconds_total",
                                       "Time in decoding and updating")),
        wait(registry.GetTimeCounter("tern_worker_wait_seconds_total",
                                     "Time of the compute thread waiting for sums")),
        checkpoints(registry.GetCounter("tern_worker_checkpoints_total", "Checkpoints written")),
        checkpoint_failures(registry.GetCounter("tern_worker_checkpoint_failures_total",
                                                "Checkpoints that could not be written")),
        checkpoint(registry.GetTimeCounter("tern_worker_checkpoint_seconds_total",
                                           "Time of the compute thread in writing checkpoints")),
        train(registry.GetTimeCounter("tern_worker_train_seconds_total",
                                      "Wall time of the training rounds")),
        loss(registry.GetGauge("tern_worker_loss", "Loss of the newest step")),
        learning_rate(
            registry.GetGauge("tern_worker_learning_rate", "Learning rate of the newest round")) {}

  Counter &rounds, &steps, &samples, &push_bytes, &clamped;
  TimeCounter &compute, &encode, &decode, &wait;
  Counter &checkpoints, &checkpoint_failures;
  TimeCounter &checkpoint, &train;
  Gauge &loss, &learning_rate;
  // As Counters of proto/wire.proto.
  std::atomic<uint64_t> job_step{0}, from_step{0};
  std::atomic<uint64_t> moves{0};   // goes up whenever the compute thread does something
  std::atomic<bool> waiting{true};  // the compute thread waits for others

  void Move() { moves.fetch_add(1, std::memory_order_relaxed); }
};

}  // namespace tern::client
