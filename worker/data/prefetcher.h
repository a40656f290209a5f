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
  // [B / N, C, H, W]: floats, or bytes and what makes floats of them (Samples::rule).
  std::vector<float> images;
  std::vector<uint8_t> bytes;
  std::vector<kernels::PixelDraws> draws;  // [B / N]
  std::vector<uint32_t> labels;            // [B / N]; empty: this worker takes no part in the step
};

// Makes memory fit for copies to a device while what it returns lives (null: it cannot). Any
// thread.
using Pin = std::function<std::shared_ptr<void>(const void* begin, size_t bytes)>;

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
    bool as_bytes = false;  // not as floats
    Pin pin = nullptr;      // where there is one: for the bytes
  };
  // `samples` outlives it.
  Prefetcher(const Samples& samples, Plan plan, const Options& options);
  ~Prefetcher();  // stops and joins

  // The batch of the next step, once it is there; the one got before may be reused from then on.
  // One thread calls this and destroys the prefetcher. kBadData as Samples::Fill; then it has
  // ended.
  Result<const Batch*> Next();
  // The batch that Next will give, if it is there and whole; null otherwise. It stays until Next
  // has been called twice, or the end.
  const Batch* Peek();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern::data
