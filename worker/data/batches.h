// The samples of a worker at each step. A pure function of (job, rank, step): a worker that
// restarts continues at any step without history.
//
// `shared`: step t takes samples [t * B, (t + 1) * B) of the sequence of shuffled epochs (B: the
// total batch; an epoch's order is a permutation by (seed, epoch)); rank r takes part r of N equal
// parts. So the samples of a step do not depend on N. `by_sample`: rank r owns the images r, r + N,
// ... and draws B / N from a sequence of its own. `by_class`: the same, but rank r owns part r of
// the images sorted by label (stable), as many as with by_sample. epochs.h covers the ends of
// epochs, and growing batches.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "worker/data/epochs.h"
#include "worker/data/samples.h"

namespace tern::data {

class Batches {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t rank = 0, workers = 1, batch_total = 0;
    pb::Data::Partition partition = pb::Data::shared;
    pb::Data::EpochEnd epoch_end = pb::Data::wrap;
    std::vector<pb::BatchGrowth> growth = {};
  };
  // `samples` outlives this. kBadJob if the batch is not a multiple of the workers, or larger than
  // the set.
  static Result<Batches> Make(const Samples& samples, const Options& options);

  // This rank's samples of a step, each with its epoch. Not thread-safe (caches the current epoch's
  // order).
  std::vector<Augmenter::SampleId> SamplesAt(uint64_t step);
  const Epochs& epochs() const { return epochs_; }
  const Samples& samples() const { return *samples_; }

 private:
  Batches(const Samples& samples, const Options& options, Epochs epochs);
  const std::vector<uint32_t>& EpochOrder(uint64_t epoch);

  const Samples* samples_;
  Options options_;
  Epochs epochs_;
  std::vector<uint32_t> owned_;  // by_class: the images of this rank
  uint64_t order_epoch_ = ~uint64_t{0};
  std::vector<uint32_t> order_;
};

// The part of the test set that `rank` evaluates: [begin, end). Parts differ by at most one sample.
struct Range {
  uint64_t begin = 0, end = 0;
};
Range TestPart(uint64_t count, uint32_t rank, uint32_t workers);

}  // namespace tern::data
