// The curves and histograms that a worker writes for TensorBoard (metrics.tensorboard), in
// output_dir/events/worker.RANK:
//
//   train/loss, learning_rate                 each step; the loss of this worker's batch
//   samples_per_s                             of this worker, while it trains
//   bytes_up_per_step, bytes_down_per_step    all frames of this worker, divided by its steps
//   test/accuracy, test/top5, test/loss       evaluations of all workers; written by the lowest
//                                             rank
//   gradient/TENSOR, coded/TENSOR             histograms of this worker's pushes, before coding and
//                                             as they decode (TernGrad, figure 2), every
//                                             metrics.histograms_every_steps
//
// For algorithms that push parameters or changes instead of gradients, `gradient` is named
// `parameters` or `change`. The writer's thread makes histograms from copies. The thread that
// encodes pushes waits if it is more than a round ahead of the writer's thread.
#pragma once

#include <cstdint>
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
  // Null if the job does not ask for it, or if its file cannot be created, which is logged. All
  // arguments outlive it.
  static std::unique_ptr<SummaryWriter> Make(const setup::Setup& setup, uint32_t rank,
                                             const client::Progress& progress,
                                             const net::Traffic& traffic);
  ~SummaryWriter() override;  // writes what is queued

  // The methods of Observer.
  void At(uint64_t steps) override;
  void Evaluated(uint64_t steps, const pb::Figures& figures) override;
  uint64_t StepToShow() override;
  void Show(Pushed pushed) override;

 private:
  SummaryWriter(const setup::Setup& setup, const client::Progress& progress,
                const net::Traffic& traffic, tensorboard::EventFile file);
  // Counter values; rates are computed from their differences.
  struct CounterValues {
    uint64_t steps = 0, samples = 0, up = 0, down = 0;
    double seconds = 0;  // of training
  };
  CounterValues ReadCounters() const;
  void AddRates();
  pb::Event NewEvent(uint64_t step) const;
  void MakeHistograms(const Pushed& pushed, pb::Event* event) const;
  // Decodes this worker's codes of the bucket.
  std::vector<float> Decode(const Pushed& pushed) const;

  const setup::Setup& setup_;
  const client::Progress& progress_;
  const net::Traffic& traffic_;
  const uint64_t histograms_every_;
  const std::string gradient_tag_;    // "gradient", "parameters" or "change"
  uint64_t step_ = 0;                 // the current step
  uint64_t last_histogram_step_ = 0;  // newest step whose histograms were requested
  uint64_t steps_seen_ = 0;           // steps done by this process
  CounterValues last_counters_;       // at the last AddRates
  Time last_rates_at_;
  tensorboard::Writer writer_;  // last, because its thread uses the members above
};

}  // namespace tern::worker
