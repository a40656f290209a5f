// The curves and histograms that a worker writes for TensorBoard (metrics.tensorboard), in
// output_dir/events/worker.RANK:
//
//   train/loss, learning_rate                 each step; the loss of this worker's batch, if it has
//                                             computed one
//   samples_per_s                             training samples that this worker processes
//   bytes_up_per_step, bytes_down_per_step    bytes that this worker sends and receives
//   test/accuracy, test/top5, test/loss       evaluations over all workers; only the lowest rank
//                                             writes them
//   gradient/TENSOR, coded/TENSOR             histograms of what this worker pushes, before it is
//                                             encoded and after its code is decoded (TernGrad,
//                                             figure 2); every metrics.histograms_every_steps
//   averaged/TENSOR                           the mean over the workers of their decoded codes, a
//                                             histogram; not if the servers hold the parameters
//   clipped/TENSOR                            the clamped values, a histogram, if the codec clamps
//   zeros/TENSOR, q/TENSOR, angle/TENSOR      how the code differs from the values; clamped/ and
//   clamped/TENSOR, bias/TENSOR               bias/ if the codec clamps (code_figures.h)
//
// For algorithms that push parameters or changes of parameters instead of gradients, `gradient` is
// named `parameters` or `change`. The writer's own thread makes the histograms, from copies of the
// values. The thread that encodes waits if it is more than a round (one exchange with the servers)
// ahead of the writer's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/exchange/observer.h"
#include "client/exchange/progress.h"
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/net/traffic.h"
#include "proto/event.pb.h"
#include "setup/setup.h"
#include "worker/tensorboard/writer.h"

namespace tern::worker {

class SummaryWriter : public client::Observer {
 public:
  // Returns null if metrics.tensorboard is off, or if the event file cannot be created, which is
  // logged. All arguments must outlive the SummaryWriter.
  static std::unique_ptr<SummaryWriter> Make(const setup::Setup& setup, uint32_t rank,
                                             const client::Progress& progress,
                                             const net::Traffic& traffic);
  ~SummaryWriter() override;  // Writes all queued events to the file.

  void OnSteps(uint64_t steps) override;
  void OnEvaluation(uint64_t steps, const pb::Figures& figures) override;
  uint64_t StepToObserve() override;
  void OnMean(uint64_t step, uint32_t bucket, std::vector<float> mean) override;
  void OnPushedBucket(PushedBucket pushed) override;

 private:
  SummaryWriter(const setup::Setup& setup, const client::Progress& progress,
                const net::Traffic& traffic, tensorboard::EventFile file);
  // Counter values at one moment. Rates are computed from the differences of two CounterValues.
  struct CounterValues {
    uint64_t steps = 0, samples = 0, bytes_sent = 0, bytes_received = 0;
    double seconds = 0;  // The time spent in training.
  };
  CounterValues ReadCounters() const;
  // Adds the rates since the last call: samples per second, and bytes per step.
  void AddRates();
  pb::Event NewEvent(uint64_t step) const;
  // Calls use(tensor, begin, end) for each tensor of which the bucket has a range: its elements
  // [begin, end).
  void VisitTensors(uint32_t bucket,
                    const std::function<void(uint32_t, uint64_t, uint64_t)>& use) const;
  void MakeHistograms(const PushedBucket& pushed, pb::Event* event) const;
  // The values of a bucket after the codec clamped them.
  std::vector<float> ClampPushed(const PushedBucket& pushed) const;
  // Decodes what this worker pushed of a bucket (a range of the model), without the codes of other
  // workers.
  std::vector<float> DecodePushed(const PushedBucket& pushed) const;

  const setup::Setup& setup_;
  const client::Progress& progress_;
  const net::Traffic& traffic_;
  const uint64_t histogram_interval_;  // In steps; 0 if no histograms are written.
  const uint64_t steps_a_push_;        // After so many steps, all parts have been pushed.
  const std::string gradient_tag_;     // "gradient", "parameters" or "change".
  uint64_t step_ = 0;                  // The number of the current step.
  uint64_t last_histogram_step_ = 0;   // The last step with histograms, or at which training began.
  uint64_t observed_until_step_ = 0;   // Earlier steps have histograms, too, if they push.
  // The values of progress_.rounds and progress_.steps at the last call of OnSteps.
  uint64_t rounds_seen_ = 0, gradients_seen_ = 0;
  CounterValues last_counters_;  // The counters when training began or AddRates last ran.
  Time last_rates_time_;
  tensorboard::Writer writer_;  // The last member, because its thread uses the members above.
};

}  // namespace tern::worker
