// Chooses the magnitude from which topk sends a tensor's elements, so that about the round's ratio
// of them is sent: the k-th largest of a sample, adapted by the number of elements it would send
// (Lin et al. 2018, section 3, and the authors' code; docs/ALGORITHMS.md, section 17). Equal
// magnitudes are sent together or not at all. The caller (topk.cc, or code for a GPU) has the
// tensor: it finds the k-th largest magnitude and counts the elements from a threshold on.
#pragma once

#include <cstdint>

#include "common/codec/codec.h"

namespace tern::codec {

class TopKThreshold {
 public:
  explicit TopKThreshold(const Options::TopK& options);

  // For a tensor of `count` elements; `noise` has its rank, round and tensor. The sample is
  // elements first, first + stride, ...: large enough that about two of its elements are sent, or
  // all of a small tensor. The stride is odd, so that it does not stay in one column of a matrix.
  struct SamplePlan {
    uint64_t wanted = 0;  // elements to send; if all, the threshold is 0
    uint64_t first = 0, stride = 1, samples = 0;
    uint64_t k = 0;      // the first threshold is the k-th largest magnitude of the sample
    bool exact = false;  // the sample is the whole tensor: the first threshold is final
  };
  SamplePlan PlanFor(uint64_t count, const kernels::NoiseKey& noise) const;

  enum class Next {
    kDone,
    kCount,  // the caller counts again, with the new threshold
    kExact,  // the threshold is the wanted-th largest of all elements
  };
  // Adapts the threshold to the number of elements that it sends; at most kAdaptations times.
  static constexpr int kAdaptations = 10;
  Next Adapt(const SamplePlan& plan, uint64_t sent, float* threshold) const;

 private:
  double RatioAt(uint64_t round) const;

  const Options::TopK options_;
  uint64_t stages_ = 0;  // warm-up stages: ratios warmup_ratio, its square, ... above the final one
};

}  // namespace tern::codec
