// What the algorithms without rounds share: servers hold the weights, this worker has a clock, its
// own count of exchanges, and each exchange brings it newer weights.
#pragma once

#include "worker/train/algorithm.h"

namespace tern::train {

class Asynchronous : public Algorithm {
 public:
  using Algorithm::Algorithm;

  // The weights as they are now, and the clock that the servers have counted this rank to.
  Status Begin(uint64_t applied) override;
  // The newest weights, and their average where the job has one.
  Status Settle() override;
  Status Part() override;
  // After those of the exchanges that the servers have counted.
  uint64_t first_step() const override { return StepOfRound(begun_at_) + 1; }
  // Servers hold the state of the job.
  Bytes SaveState() override { return c_.replica.SaveWeights(applied_); }

 protected:
  // Waits for the answers to this worker's exchange number clock() + 1, which it has pushed; counts
  // it.
  Status AwaitExchange();
  // The weights of that exchange, into w. Before the next one is pushed.
  Status Install(float* w) const { return c_.sums.Install(clock_, w); }
  // The same, and the next gradient is taken there.
  Status TrainOnThere();

  uint64_t clock() const { return clock_; }

 private:
  uint64_t clock_ = 0;
  uint64_t begun_at_ = 0;  // clock
};

}  // namespace tern::train
