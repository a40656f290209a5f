// The base class of the algorithms without rounds. Servers hold the weights. This worker counts its
// exchanges (its clock). An exchange returns newer weights, unless the worker wants no weights.
#pragma once

#include "client/train/algorithm.h"

namespace tern::client {

class Asynchronous : public Algorithm {
 public:
  using Algorithm::Algorithm;

  // Pulls the current weights, and continues with the clock up to which the servers have counted
  // this rank's pushes. Ignores `applied`.
  Status Begin(uint64_t applied) override;
  // Pulls the newest weights, and their moving average if the job has one.
  Status Drain() override;
  // Sends a last exchange without a gradient, and waits for the answers.
  Status Leave() override;
  // The first step after the exchanges of this rank that the servers had counted at Begin.
  uint64_t first_step() const override { return StepOfRound(first_clock_) + 1; }
  uint64_t last_pushed_round() const override { return clock_; }
  // Saves the State without the optimizer's state, which the servers hold.
  Bytes SaveState() override { return context_.state.SaveWeights(applied_); }

 protected:
  // Waits for the answers to this worker's exchange number clock() + 1, which it has pushed, and
  // increments the clock.
  Status AwaitExchange();
  // Writes the weights of the exchange that AwaitExchange awaited into w. Call before the next
  // exchange is pushed.
  Status InstallWeights(float* w) const { return context_.sums.InstallWeights(clock_, w); }
  // Writes the weights of the awaited exchange into the replica's parameters and into its point,
  // where the next gradient is computed.
  Status MovePointToAnswer();

  uint64_t clock() const { return clock_; }

 private:
  uint64_t clock_ = 0;
  uint64_t first_clock_ = 0;  // the clock when Begin returned
};

}  // namespace tern::client
