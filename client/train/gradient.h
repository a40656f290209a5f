// This worker's gradient of a step, as it goes into the algorithm: forward and backward, weight
// decay in the gradient, clipping by norm.
#pragma once

#include <functional>
#include <vector>

#include "client/exchange/progress.h"
#include "client/train/compute.h"
#include "client/train/replica.h"
#include "setup/setup.h"

namespace tern::client {

class Gradient {
 public:
  // All arguments outlive it. The gradient is taken at replica.point(), into replica.gradients().
  Gradient(const setup::Setup& setup, Compute& compute, Replica& replica, Progress& progress);

  // Waits for the samples of the next step. kBadData as in Compute::Fetch.
  Status Fetch();
  // Whether this worker takes part in the step that was fetched.
  bool has_samples() const { return samples_ != 0; }

  using Need = std::function<Status(uint32_t tensor)>;
  using Ready = std::function<void(uint32_t bucket)>;

  // Calls `need(tensor)` before the first layer reads the tensor at the point, so that the caller
  // can put it in place in time; its error ends this. Calls `ready(bucket)` when a bucket is final:
  // while backward still runs, or for all buckets at the end if the exchange does not overlap
  // (exchange.overlap) or the norm must be known first. Returns the device's error if it has
  // failed; then no bucket was ready.
  // REQUIRES has_samples().
  Status Take(const Need& need, const Ready& ready);
  Status Take(const Ready& ready = [](uint32_t) {});

  // The sum of mean losses times samples since the last call, and the number of those samples.
  struct Losses {
    double sum = 0;
    uint64_t samples = 0;
  };
  Losses TakeLosses();
  const Losses& losses() const { return losses_; }
  void SetLosses(const Losses& losses) { losses_ = losses; }

 private:
  // `time` excludes the time in `need`.
  Result<double> Forward(const Need& need, TimeScope* time);
  Status Backward(const Ready& ready);

  const setup::Setup& setup_;
  Compute& compute_;
  Replica& replica_;
  Progress& progress_;
  const std::vector<float> decay_;                 // by tensor, added to the gradient
  std::vector<std::vector<uint32_t>> buckets_of_;  // by tensor
  std::vector<uint32_t> tensors_left_;             // by bucket, in the running backward
  bool in_backward_;
  uint32_t samples_ = 0;  // of the step
  Losses losses_;
};

}  // namespace tern::client
