// What a worker shows in TensorBoard (metrics.tensorboard), in output_dir/events/worker.RANK:
//
//   train/loss, learning_rate                 each step; the loss is that of this worker's batch
//   samples_per_s                             of this worker, while it trains
//   bytes_up_per_step, bytes_down_per_step    all frames of this worker, over its steps
//   test/accuracy, test/top5, test/loss       the evaluations of all, by the lowest rank alone
//   gradient/TENSOR, coded/TENSOR             histograms of what this worker pushes, before it is
//                                             coded and as it can be decoded (TernGrad, figure 2),
//                                             every metrics.histograms_every_steps
//
// Where an algorithm pushes something else than gradients, `gradient` is `parameters` or `change`.
// Histograms are made on the writer's thread, from copies; the coder waits where that is more than
// a round behind.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/net/traffic.h"
#include "common/setup/setup.h"
#include "proto/event.pb.h"
#include "worker/tensorboard/writer.h"
#include "worker/train/progress.h"

namespace tern::train {

class Board {
 public:
  // Null where the job wants none, or where its file cannot be made, which the log says. All
  // outlive it.
  static std::unique_ptr<Board> Make(const setup::Setup& setup, uint32_t rank,
                                     const Progress& progress, const net::Traffic& traffic);
  ~Board();  // writes what is left

  // From the compute thread.
  // Between two steps, `steps` of them done.
  void At(uint64_t steps);
  // `figures`: of all workers, after so many steps.
  void Evaluated(uint64_t steps, const pb::Figures& figures);
  // The step under way, where what is pushed in it is to be shown; else 0.
  uint64_t StepToShow();

  // From the coder thread.
  // A bucket of what is pushed.
  struct Pushed {
    uint64_t step = 0;
    uint32_t bucket = 0;
    std::vector<float> values;
    std::vector<Bytes> codes;    // by chunk
    std::vector<float> scalers;  // by part of the bucket
  };
  // Its values: `arena` as Coder::Push. Codes and scalers are still to come.
  Pushed Copy(uint64_t step, uint32_t bucket, const float* arena) const;
  // May wait.
  void Show(Pushed pushed);

 private:
  Board(const setup::Setup& setup, const Progress& progress, const net::Traffic& traffic,
        tensorboard::EventFile file);
  // What is counted, as rates are taken of it.
  struct Counted {
    uint64_t steps = 0, samples = 0, up = 0, down = 0;
    double seconds = 0;  // in training
  };
  Counted Count() const;
  void AddRates();
  pb::Event NewEvent(uint64_t step) const;
  void FillIn(const Pushed& pushed, pb::Event* event) const;
  // What the bucket's codes become on their own.
  std::vector<float> Decode(const Pushed& pushed) const;

  const setup::Setup& setup_;
  const Progress& progress_;
  const net::Traffic& traffic_;
  const uint64_t histograms_every_;
  const std::string pushed_;  // "gradient"
  uint64_t step_ = 0;         // under way
  uint64_t shown_ = 0;        // the newest whose histograms were wanted
  uint64_t steps_seen_ = 0;   // done by this process
  Counted rates_of_;          // at the newest rates
  Time rates_at_;
  tensorboard::Writer writer_;  // last: its thread uses the rest
};

}  // namespace tern::train
