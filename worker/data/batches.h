// Which samples a worker sees at a step. A pure function of (job, rank, step): a worker that comes
// back continues anywhere without history.
//
// `shared`: step t takes samples [t * B, (t + 1) * B) of a row of shuffled epochs (B the total
// batch; an epoch's order is a permutation by (seed, epoch)); rank r takes its r-th of N equal
// parts. So every N sees the same samples at the same step. `by_sample`: rank r owns the images r,
// r + N, ... and draws B / N from its own row. `by_class`: the same, rank r owns the r-th part of
// the images in the order of their labels (of equal ones, as they lie in the set), as many as with
// by_sample. Where an epoch ends, and batches that grow: epochs.h.
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
  // `samples` outlives this. kBadJob if the batch does not divide by the workers or is larger than
  // the set.
  static Result<Batches> Make(const Samples& samples, const Options& options);

  // This rank's samples of a step, each with the epoch that it is of. Not thread-safe (keeps the
  // current epoch's order).
  std::vector<Augmenter::Place> Places(uint64_t step);
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

// The part of the test set that `rank` evaluates: [begin, end), equal parts up to one.
struct Range {
  uint64_t begin = 0, end = 0;
};
Range TestPart(uint64_t count, uint32_t rank, uint32_t workers);

}  // namespace tern::data
