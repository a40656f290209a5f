// Batches made ahead of whoever works on them, by threads that decode and augment.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "worker/data/samples.h"

namespace tern::data {

struct Batch {
  uint64_t step = 0;
  std::vector<float> images;     // [B / N, C, H, W]
  std::vector<uint32_t> labels;  // [B / N]; empty: this worker takes no part in the step
};

// The threads share the images of a batch, so what comes out is the same however many they are.
class Prefetcher {
 public:
  // The samples of a step. Called by one thread at a time, once for each step, in order.
  using Plan = std::function<std::vector<Augmenter::Place>(uint64_t step)>;
  struct Options {
    uint64_t first_step = 0;
    uint32_t threads = 1;
    uint32_t depth = 3;  // batches ahead, at least 1
    uint32_t room = 0;   // images that a batch has at least; those beyond its labels are of no use
  };
  // `samples` outlives it.
  Prefetcher(const Samples& samples, Plan plan, const Options& options);
  ~Prefetcher();  // stops and joins

  // The batch of the next step, once it is there; the one got before may be reused from then on.
  // One thread calls this and destroys the prefetcher. kBadData as Samples::Fill; then it has
  // ended.
  Result<const Batch*> Next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern::data
