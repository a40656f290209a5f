// Which samples a worker sees at a step, as tensors. A pure function of (job, rank, step): a worker
// that comes back continues anywhere without history.
//
// `shared`: step t takes samples [t * B, (t + 1) * B) of a row of shuffled epochs (B the total
// batch; an epoch's order is a permutation by (seed, epoch)); rank r takes its r-th of N equal
// parts. So every N sees the same samples at the same step. `by_sample`: rank r owns the images r,
// r + N, ... and draws B / N from its own row. Where an epoch ends, and batches that grow:
// epochs.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "worker/data/dataset.h"
#include "worker/data/epochs.h"
#include "worker/data/pixels.h"

namespace tern::data {

struct Batch {
  uint64_t step = 0;
  std::vector<float> images;     // [B / N, C, H, W], x / 255 * scale + offset
  std::vector<uint32_t> labels;  // [B / N]; empty: this worker takes no part in the step
};

class Batches {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t rank = 0, workers = 1, batch_total = 0;
    pb::Data::Partition partition = pb::Data::shared;
    pb::Data::EpochEnd epoch_end = pb::Data::wrap;
    std::vector<pb::BatchGrowth> growth = {};
    float scale = 1, offset = 0;
  };
  // `dataset` outlives this. kBadJob if the batch does not divide by the workers or is larger than
  // the set.
  static Result<Batches> Make(const Dataset& dataset, const Options& options);

  // Indices into the dataset of this rank's samples of a step. Not thread-safe (keeps the current
  // epoch's order).
  std::vector<uint64_t> Indices(uint64_t step);
  void Fill(uint64_t step, Batch* batch);
  const Epochs& epochs() const { return epochs_; }

 private:
  Batches(const Dataset& dataset, const Options& options, Epochs epochs);
  const std::vector<uint32_t>& EpochOrder(uint64_t epoch);

  const Dataset* dataset_;
  Options options_;
  Epochs epochs_;
  PixelTable pixels_;
  uint64_t order_epoch_ = ~uint64_t{0};
  std::vector<uint32_t> order_;
};

// Makes batches ahead of the step on a thread of its own. Next() blocks until the batch of the next
// step is there; one thread calls it and destroys this.
class Prefetcher {
 public:
  // Starts at `first_step`. Takes over `batches`.
  Prefetcher(Batches batches, uint64_t first_step, int depth = 3);
  ~Prefetcher();  // stops and joins
  // The batch of the next step; the one got before may be reused from then on.
  const Batch& Next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The part of the test set that `rank` evaluates: [begin, end), equal parts up to one.
struct Range {
  uint64_t begin = 0, end = 0;
};
Range TestPart(uint64_t count, uint32_t rank, uint32_t workers);

}  // namespace tern::data
