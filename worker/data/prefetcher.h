// Prepares batches ahead of their use, on threads that decode and augment.
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
  // [B / N, C, H, W] for a total batch of B and N workers: floats, or bytes and the draws that turn
  // them into floats (Samples::rule).
  std::vector<float> images;
  std::vector<uint8_t> bytes;
  std::vector<kernels::PixelDraws> draws;  // [B / N]
  std::vector<uint32_t> labels;            // [B / N]; empty: this worker has no samples in the step
};

// Page-locks memory for copies to a device until the returned handle is dropped; returns null if
// that fails. Any thread.
using Pin = std::function<std::shared_ptr<void>(const void* begin, size_t bytes)>;

// Several threads fill each batch; the result does not depend on their number.
class Prefetcher {
 public:
  // The samples of a step. Called by one thread at a time, once for each step, in order.
  using SamplePlan = std::function<std::vector<Augmenter::SampleId>(uint64_t step)>;
  struct Options {
    uint64_t first_step = 0;
    uint32_t threads = 1;
    uint32_t depth = 3;  // batches prepared ahead, at least 1
    uint32_t min_images =
        0;  // minimum number of images in a batch; those beyond its labels are unused
    bool as_bytes = false;  // images as bytes instead of floats
    Pin pin = nullptr;      // if set, page-locks the bytes
  };
  // `samples` outlives it.
  Prefetcher(const Samples& samples, SamplePlan plan, const Options& options);
  ~Prefetcher();  // stops and joins

  // Waits for the batch of the next step. The previous batch is invalid from then on. One
  // thread calls this and destroys the prefetcher. kBadData as in Samples::Fill; after that, no
  // further call.
  Result<const Batch*> Next();
  // The batch that Next will return, if it is complete; else null. Valid until Next has been called
  // twice, or the prefetcher is destroyed.
  const Batch* Peek();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern::data
