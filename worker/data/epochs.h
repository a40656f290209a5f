// The places of the shuffled epochs that a worker's steps take, with growing batches, epochs that
// do not divide into steps, and workers that own parts of unequal size. A pure function of its
// options. All ranks have the same number of steps, so that no round waits for a worker without
// data.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::data {

// A worker's samples of a step: [begin, begin + count) of its row's epoch, modulo the row's length
// if the epoch is padded. count 0: the worker takes no part.
struct Place {
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
  // kBadJob if the workers do not divide a batch, or it is larger than an epoch.
  static Result<Epochs> Make(const Options& options);

  Place At(uint64_t step) const;
  // Samples per epoch of the row that this rank draws from: all images, or its own.
  uint64_t row_length() const { return row_length_; }
  // Steps in the first epoch.
  uint64_t steps_per_epoch() const;
  // The steps of that many epochs, at least 1.
  uint64_t StepsOf(double epochs) const;
  uint32_t largest_part() const;  // samples of a worker in a step

 private:
  // A range of steps with one batch size.
  struct Stage {
    uint64_t first_step = 0;
    double first_epoch = 0;
    uint64_t first_place = 0;  // wrap: samples of the row before it
    uint32_t part = 0;         // samples of a worker in a step
  };
  explicit Epochs(const Options& options) : options_(options) {}
  // The length of a rank's row.
  uint64_t LengthOf(uint32_t rank) const;
  uint64_t StepsOfAnEpoch(uint32_t part) const;  // not if epochs wrap
  // How many samples one step takes from a row.
  uint64_t Stride(uint32_t part) const;
  uint64_t Offset(uint32_t part) const;  // of this rank's samples within them
  void AddStage(double at_epoch, uint32_t batch_total);

  Options options_;
  uint64_t row_length_ = 0;
  std::vector<Stage> stages_;
};

}  // namespace tern::data
