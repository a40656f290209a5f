// Prepares batches before they are needed, on threads that decode and augment images.
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
  // Let n be the number of this worker's samples in the step. The images are [n, C, H, W] (or more,
  // see Options::min_images), either as floats (`images`), or as bytes (`bytes`) with one entry of
  // `draws` per image: the random numbers by which Samples::rule turns the bytes into floats.
  std::vector<float> images;
  std::vector<uint8_t> bytes;
  std::vector<kernels::PixelDraws> draws;
  // [n]; empty if this worker has no samples in the step. Damaged test images are left out.
  std::vector<uint32_t> labels;
};

// A function that page-locks memory, for fast copies to a device, until the returned handle is
// destroyed. Returns null if that fails. Any thread may call it.
using PinFunction = std::function<std::shared_ptr<void>(const void* begin, size_t bytes)>;

// Fills each batch with several threads. The contents do not depend on the number of threads.
class Prefetcher {
 public:
  // A function that returns the samples of a step. It is called once for each step from
  // Options::first_step on, in order, by one thread at a time.
  using SamplePlan = std::function<std::vector<Augmenter::SampleId>(uint64_t step)>;
  struct Options {
    uint64_t first_step = 0;
    uint32_t threads = 1;
    uint32_t depth = 3;  // How many batches to prepare ahead, at least 1.
    // Each batch has memory for at least this many images. If the step has fewer samples, the other
    // images are unspecified and have no label.
    uint32_t min_images = 0;
    // Whether to fill Batch::bytes and Batch::draws instead of Batch::images.
    bool fills_bytes = false;
    PinFunction pin = nullptr;  // If set, page-locks Batch::bytes.
  };
  // `samples` must outlive the prefetcher.
  Prefetcher(const Samples& samples, SamplePlan plan, const Options& options);
  ~Prefetcher();  // Stops and joins the threads.

  // Waits for the batch of the next step, and returns it. The batch that the previous call returned
  // is invalid from then on. Only one thread may call this and destroy the prefetcher. kBadData if
  // more images are damaged than the job allows; do not call Next again after an error.
  Result<const Batch*> Next();
  // Returns the batch that the next call of Next will return, if that batch is complete and without
  // an error; else null. The pointer is valid until Next has been called twice, or the prefetcher
  // is destroyed.
  const Batch* Peek();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern::data
