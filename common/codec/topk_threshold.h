// Chooses the threshold of the codec topk: elements of a tensor whose magnitude is at least the
// threshold are sent. About a given share of the elements shall be sent. The threshold is first the
// k-th largest magnitude of a sample, and is then adapted to the number of elements that the
// threshold selects (Lin et al. 2018, section 3, and the authors' code; docs/ALGORITHMS.md, section
// 17). This class does not see the tensor: the caller, on a CPU or a GPU, finds k-th largest
// magnitudes and counts the elements whose magnitude is at least a threshold.
#pragma once

#include <cstdint>

#include "common/codec/codec.h"

namespace tern::codec {

class TopKThreshold {
 public:
  explicit TopKThreshold(const Options::TopK& options);

  // What to sample. The sample is elements first, first + stride, ... of the tensor. It is so
  // large that at least about two of its elements are sent; a small tensor is sampled whole.
  // The stride is odd, so that the sample does not consist of one column of a matrix.
  struct SamplePlan {
    uint64_t num_wanted = 0;  // elements to send; if these are all, the threshold is 0
    uint64_t first = 0, stride = 1;
    uint64_t num_samples = 0;  // elements of the sample
    uint64_t k = 0;            // the first threshold is the k-th largest magnitude of the sample
    bool is_exact = false;     // the sample is the whole tensor: the first threshold is final
  };
  // Plans the sample of a tensor of `count` elements. `noise` has the worker's rank, the round and
  // the index of the tensor.
  SamplePlan PlanFor(uint64_t count, const kernels::NoiseKey& noise) const;

  // What the caller does after Adapt.
  enum class NextStep {
    kDone,   // The caller uses the threshold.
    kCount,  // The caller counts the elements again, with the new threshold, and calls Adapt.
    // The caller uses the plan.num_wanted-th largest magnitude of the whole tensor instead.
    kExact,
  };
  // A threshold is changed at most this many times.
  static constexpr int kMaxAdaptations = 10;
  // `num_sent`: how many elements would be sent with *threshold, after it was changed
  // `num_adaptations` times. If these are too few or too many, changes *threshold, which it does at
  // most kMaxAdaptations times, or returns kExact.
  NextStep Adapt(const SamplePlan& plan, uint64_t num_sent, int num_adaptations,
                 float* threshold) const;

 private:
  double RatioAt(uint64_t round) const;  // the share of elements to send in this round

  const Options::TopK options_;
  // The number of warm-up stages. In stage i, from 0, the share sent is warmup_ratio^(i + 1).
  uint64_t num_stages_ = 0;
};

}  // namespace tern::codec
