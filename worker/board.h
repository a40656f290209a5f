// What a worker writes for TensorBoard (metrics.tensorboard), in output_dir/events/worker.RANK:
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
// For algorithms that push something else, `gradient` is named `parameters` or `change`. The
// writer's thread makes histograms from copies; the coder waits if it is more than a round behind.
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

class Board : public client::Observer {
 public:
  // Null if the job does not want it, or if its file cannot be created, which is logged. All
  // arguments outlive it.
  static std::unique_ptr<Board> Make(const setup::Setup& setup, uint32_t rank,
                                     const client::Progress& progress, const net::Traffic& traffic);
  ~Board() override;  // writes what is queued

  // As in Observer.
  void At(uint64_t steps) override;
  void Evaluated(uint64_t steps, const pb::Figures& figures) override;
  uint64_t StepToShow() override;
  void Show(Pushed pushed) override;

 private:
  Board(const setup::Setup& setup, const client::Progress& progress, const net::Traffic& traffic,
        tensorboard::EventFile file);
  // Counter values, from whose differences rates are computed.
  struct Counted {
    uint64_t steps = 0, samples = 0, up = 0, down = 0;
    double seconds = 0;  // in training
  };
  Counted Count() const;
  void AddRates();
  pb::Event NewEvent(uint64_t step) const;
  void FillIn(const Pushed& pushed, pb::Event* event) const;
  // Decodes the bucket's codes on their own.
  std::vector<float> Decode(const Pushed& pushed) const;

  const setup::Setup& setup_;
  const client::Progress& progress_;
  const net::Traffic& traffic_;
  const uint64_t histograms_every_;
  const std::string pushed_;  // "gradient"
  uint64_t step_ = 0;         // the current one
  uint64_t shown_ = 0;        // the newest whose histograms were requested
  uint64_t steps_seen_ = 0;   // done by this process
  Counted rates_of_;          // at the last AddRates
  Time rates_at_;
  tensorboard::Writer writer_;  // last: its thread uses the rest
};

}  // namespace tern::worker
