// The base of the algorithms without rounds: servers hold the weights, this worker has a clock, its
// own count of exchanges, and each exchange brings it newer weights.
#pragma once

#include "client/train/algorithm.h"

namespace tern::client {

class Asynchronous : public Algorithm {
 public:
  using Algorithm::Algorithm;

  // Pulls the current weights, and the clock up to which the servers have counted this rank.
  Status Begin(uint64_t applied) override;
  // Pulls the newest weights, and their average if the job has one.
  Status Drain() override;
  Status Leave() override;
  // The step after the exchanges that the servers have counted.
  uint64_t first_step() const override { return StepOfRound(begun_at_) + 1; }
  // The servers hold the state of the job.
  Bytes SaveState() override { return c_.state.SaveWeights(applied_); }

 protected:
  // Waits for the answers to this worker's exchange number clock() + 1, which it has pushed, and
  // increments the clock.
  Status AwaitExchange();
  // Writes the weights of that exchange into w. Call before the next one is pushed.
  Status Install(float* w) const { return c_.sums.Install(clock_, w); }
  // Writes them into the point, so that the next gradient is taken there.
  Status TrainOnThere();

  uint64_t clock() const { return clock_; }

 private:
  uint64_t clock_ = 0;
  uint64_t begun_at_ = 0;  // the clock at the beginning
};

}  // namespace tern::client
