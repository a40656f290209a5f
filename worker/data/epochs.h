// Computes which samples of which epoch a worker takes at each step. An epoch is one pass over the
// training images. Its length need not be a multiple of the batch; if it is not, data.epoch_end
// says what happens: `wrap` goes on in the next epoch, `drop_last` leaves out the last incomplete
// batch, `pad` fills that batch up with samples from the epoch's beginning, and with `leave` a
// worker that has no full batch left takes no samples in that step. The batch may grow at given
// epochs. With data.partition other than `shared`, a worker draws only from images that it owns,
// and workers may own different numbers of images. All workers have the same number of steps, so
// that none waits for a worker that has run out of data.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::data {

// The samples that a worker takes in a step: positions [begin, begin + count) of a shuffled epoch.
// Positions beyond the epoch's end continue at the beginning: of the next epoch with `wrap`, of the
// same epoch with `pad`. count is 0 if the worker takes no samples in the step.
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
    pb::Data::EpochEnd epoch_end = pb::Data::wrap;
    std::vector<pb::BatchGrowth> batch_growth = {};
    uint64_t num_images = 0;  // The number of images in the training set.
  };
  // What the job says, for rank 0, without the number of images. Of a job with workers.max,
  // `workers` and the batches are those of all ranks, so that late joiners draw samples that no
  // other worker has.
  static Options OptionsOf(const pb::Job& job);
  // kBadJob if `rank` is not below `workers`, or if a batch size is 0, not a multiple of `workers`,
  // or larger than the training set.
  static Result<Epochs> Make(const Options& options);

  // Returns the samples of step number `step`; steps count from 0.
  EpochSlice SliceAt(uint64_t step) const;
  // The number of images that this rank draws from in an epoch: all images if workers share them,
  // else those that this rank owns.
  uint64_t epoch_length() const { return epoch_length_; }
  // The number of steps in an epoch at the initial batch size; with `wrap`, rounded down.
  uint64_t steps_per_epoch() const;
  // The number of steps in the first `epochs` epochs, rounded to nearest, at least 1.
  uint64_t StepsOf(double epochs) const;

 private:
  // A range of steps with the same batch size.
  struct Stage {
    uint64_t first_step = 0;
    double first_epoch = 0;
    // Used only with epoch_end `wrap`: how many samples earlier stages took from the sequence that
    // this rank draws from.
    uint64_t first_sample = 0;
    uint32_t worker_batch = 0;  // The number of samples that each worker takes in a step.
  };
  explicit Epochs(const Options& options) : options_(options) {}
  // The number of images that `rank` draws from in an epoch.
  uint64_t EpochLengthOf(uint32_t rank) const;
  // The number of steps in an epoch; 0 if epochs wrap, because then a step may cross epochs.
  uint64_t StepsInEpoch(uint32_t worker_batch) const;
  // How many samples one step takes from the sequence that this rank draws from: the batches of all
  // workers if they share the sequence, else only this rank's batch.
  uint64_t SamplesPerStep(uint32_t worker_batch) const;
  // The position of this rank's first sample among the samples of a step.
  uint64_t OffsetInStep(uint32_t worker_batch) const;
  // Adds the stage that begins at `at_epoch`, where the batch of all workers becomes `batch_total`.
  void AddStage(double at_epoch, uint32_t batch_total);

  Options options_;
  uint64_t epoch_length_ = 0;
  std::vector<Stage> stages_;
};

// The length of `job` in steps. kBadJob if the job ends before Lookahead takes in the weights for
// the first time.
Result<uint64_t> StepsOfJob(const pb::Job& job, const Epochs& epochs);

}  // namespace tern::data
