// Maps each step to its samples in the shuffled epochs, with growing batches, epochs that do not
// divide into steps, and workers that own different numbers of images. A pure function of its
// options. All ranks have the same number of steps, so no round waits for a worker without data.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::data {

// A worker's samples of a step: [begin, begin + count) of an epoch, modulo the epoch's length if
// the epoch is padded. count 0: the worker has no samples in this step.
struct EpochSlice {
  uint64_t epoch = 0;
  uint64_t begin = 0;
  uint32_t count = 0;
};

class Epochs {
 public:
  struct Options {
    uint32_t rank = 0, workers = 1, batch_total = 0;
    pb::Data::Partition partition = pb::Data::shared;
    pb::Data::EpochEnd end = pb::Data::wrap;
    std::vector<pb::BatchGrowth> growth = {};
    uint64_t images = 0;
  };
  // kBadJob if a batch is not a multiple of the workers, or larger than an epoch.
  static Result<Epochs> Make(const Options& options);

  EpochSlice At(uint64_t step) const;
  // Samples per epoch of the sequence that this rank draws from: all images, or its own.
  uint64_t epoch_length() const { return epoch_length_; }
  // Steps in the first epoch.
  uint64_t steps_per_epoch() const;
  // The number of steps in `epochs` epochs, at least 1.
  uint64_t StepsOf(double epochs) const;
  uint32_t largest_worker_batch() const;  // most samples of a worker in a step

 private:
  // A range of steps with one batch size.
  struct Stage {
    uint64_t first_step = 0;
    double first_epoch = 0;
    uint64_t first_sample = 0;  // if epochs wrap: samples before this stage
    uint32_t worker_batch = 0;  // samples of a worker in a step
  };
  explicit Epochs(const Options& options) : options_(options) {}
  // Samples per epoch of a rank's sequence.
  uint64_t LengthOf(uint32_t rank) const;
  uint64_t StepsInEpoch(uint32_t worker_batch) const;  // 0 if epochs wrap
  // How many samples one step takes from the sequence.
  uint64_t Stride(uint32_t worker_batch) const;
  uint64_t Offset(uint32_t worker_batch) const;  // of this rank's first sample in a step
  void AddStage(double at_epoch, uint32_t batch_total);

  Options options_;
  uint64_t epoch_length_ = 0;
  std::vector<Stage> stages_;
};

}  // namespace tern::data
