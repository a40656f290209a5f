// The magnitude from which topk sends a tensor's elements, so that about the round's ratio of them
// is: the k-th largest of a sample, adapted by how many it sends (Lin et al. 2018, section 3 and
// the authors' code). Equals are sent or stay together. What looks at the tensor (a k-th largest, a
// count) is the caller's: topk.cc, or a GPU.
#pragma once

#include <cstdint>

#include "common/codec/codec.h"

namespace tern::codec {

class TopKThreshold {
 public:
  explicit TopKThreshold(const Options::TopK& options);

  // Of a tensor of `count` elements; the rank, round and tensor of `noise`. Elements first, first +
  // stride, ... are the sample; two at least of what is sent, all of a tensor that has no more. The
  // stride is odd, so that it does not stay in one column of a matrix.
  struct Plan {
    uint64_t wanted = 0;  // elements to send; all: by the threshold 0
    uint64_t first = 0, stride = 1, samples = 0;
    uint64_t k = 0;      // the k-th largest magnitude of the sample is the first threshold ...
    bool exact = false;  // ... and, where the sample is all, the last one
  };
  Plan PlanOf(uint64_t count, const kernels::NoiseKey& noise) const;

  enum class Next {
    kDone,
    kCount,  // of the new threshold
    kExact,  // the wanted-th largest of all is the threshold
  };
  // By how many a threshold sends, at most kAdaptations times.
  static constexpr int kAdaptations = 10;
  Next Adapt(const Plan& plan, uint64_t sent, float* threshold) const;

 private:
  double RatioAt(uint64_t round) const;

  const Options::TopK options_;
  uint64_t stages_ = 0;  // powers of warmup_ratio above the final ratio
};

}  // namespace tern::codec
