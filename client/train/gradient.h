// Computes this worker's gradient of a step: forward and backward pass, weight decay in the
// gradient (train.weight_decay.where), clipping by norm. With train.compute: wait, the gradient is
// noise, without decay and clipping. Threads: the compute thread.
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
  // All arguments outlive this object. The gradient is computed at replica.point() and written to
  // replica.gradients().
  Gradient(const setup::Setup& setup, Compute& compute, Replica& replica, Progress& progress);

  // Waits for the samples of the next step. kBadData as in Compute::FetchSamples.
  Status FetchSamples();
  // Whether this worker takes part in the step whose samples were fetched.
  bool has_samples() const { return num_samples_ != 0; }

  using BeforeTensorRead = std::function<Status(uint32_t tensor)>;
  using OnBucketReady = std::function<void(uint32_t bucket)>;

  // Computes the gradient. Calls `before_read(tensor)` before the first layer that reads the
  // tensor, so that the caller can update the tensor just in time; an error of `before_read` ends
  // the call. Calls `on_ready(bucket)` when the gradients of a bucket (a range of the model) are
  // final: while the backward pass still runs, or at the end for all buckets, if the exchange does
  // not overlap (exchange.overlap) or clipping needs the norm first. Returns the error of a failed
  // device; `on_ready` may then lack calls. REQUIRES has_samples().
  Status ForwardBackward(const BeforeTensorRead& before_read, const OnBucketReady& on_ready);
  Status ForwardBackward(const OnBucketReady& on_ready = [](uint32_t) {});

  // The sum of the losses of training samples, and the number of these samples.
  struct Losses {
    double sum = 0;
    uint64_t samples = 0;
  };
  // Returns the losses since the last call, and sets them to zero.
  Losses TakeLosses();
  const Losses& losses() const { return losses_; }
  void SetLosses(const Losses& losses) { losses_ = losses; }

 private:
  // Returns the mean loss. Stops `time` while `before_read` runs.
  Result<double> Forward(const BeforeTensorRead& before_read, TimeScope* time);
  Status Backward(const OnBucketReady& on_ready);

  const setup::Setup& setup_;
  Compute& compute_;
  Replica& replica_;
  Progress& progress_;
  const std::vector<float> decays_;  // by tensor: weight decay in the gradient
  const double max_norm_;            // to which gradients are clipped; 0: they are not
  // By tensor: the buckets that have its elements.
  std::vector<std::vector<uint32_t>> buckets_of_tensor_;
  std::vector<uint32_t> tensors_left_;  // by bucket: how many tensors have no final gradient yet
  bool reports_in_backward_;  // whether buckets are reported ready while the backward pass runs
  uint32_t num_samples_ = 0;  // how many samples this worker has in the fetched step
  Losses losses_;
};

}  // namespace tern::client
