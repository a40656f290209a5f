// Chooses the samples of a worker at each step. The choice is a pure function of (job, rank, step),
// so a worker that restarts can continue at any step without knowing what it did before.
//
// Let B be the batch size of all workers together, N the number of workers, and r the rank of a
// worker, from 0 to N - 1. The job's data.partition decides how workers share the images:
//
//   shared     all workers draw from one sequence, the shuffled epochs one after the other (an
//              epoch's order is a permutation by seed and epoch). If B is constant and epoch_end is
//              `wrap`, step t takes the samples [t * B, (t + 1) * B) of the sequence. Rank r takes
//              part r of N equal parts of a step's samples, which do not depend on N.
//   by_sample  rank r owns the images r, r + N, r + 2 N, ... It shuffles only these in each epoch,
//              and takes B / N of them per step.
//   by_class   as by_sample, but rank r owns part r of N parts of the images sorted by label. Each
//              rank owns as many images as with by_sample.
//
// epochs.h defines the other values of epoch_end, and how batches may grow.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "worker/data/epochs.h"
#include "worker/data/samples.h"

namespace tern::data {

class Batches {
 public:
  // `samples` must outlive this object, and gives the number of images. `seed` is that of the
  // epochs' orders. Returns the errors of Epochs::Make.
  static Result<Batches> Make(const Samples& samples, Epochs::Options options, uint64_t seed = 1);

  // Returns this rank's samples of a step. Only one thread at a time may call this, because it
  // caches the order of the current epoch.
  std::vector<Augmenter::SampleId> SamplesAt(uint64_t step);
  const Epochs& epochs() const { return epochs_; }
  const Samples& samples() const { return *samples_; }

 private:
  Batches(const Samples& samples, Epochs::Options options, uint64_t seed, Epochs epochs);
  // Returns the shuffled order of an epoch, as indices into the images that this rank draws from.
  const std::vector<uint32_t>& EpochOrder(uint64_t epoch);

  const Samples* samples_;
  Epochs::Options options_;
  uint64_t seed_;
  Epochs epochs_;
  std::vector<uint32_t>
      owned_images_;  // With by_class, the images that this rank owns; otherwise empty.
  uint64_t cached_epoch_ = ~uint64_t{0};  // The epoch whose order is cached; ~0 if none is yet.
  std::vector<uint32_t> cached_order_;    // The order of epoch cached_epoch_.
};

// The indices [begin, end) of samples.
struct Range {
  uint64_t begin = 0, end = 0;
};
// Divides `count` samples into `workers` ranges whose lengths differ by at most 1; returns the
// range of `rank`, for example the part of the test set that this worker evaluates.
Range DivideSamples(uint64_t count, uint32_t rank, uint32_t workers);

}  // namespace tern::data
