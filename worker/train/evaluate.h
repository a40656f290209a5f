// A worker's part of the test set, through the net in its evaluation form.
#pragma once

#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/setup/setup.h"
#include "worker/data/batches.h"
#include "worker/data/dataset.h"
#include "worker/data/pixels.h"
#include "worker/engine/net.h"
#include "worker/train/progress.h"
#include "worker/train/replica.h"

namespace tern::train {

class Evaluate {
 public:
  // All outlive it. Rank r scores the r-th of N equal parts.
  static Result<std::unique_ptr<Evaluate>> Make(const setup::Setup& setup, uint32_t rank,
                                                const data::Dataset& test, const Replica& replica,
                                                Progress& progress);
  // Sums over this worker's part.
  engine::Score Run();

 private:
  Evaluate(const setup::Setup& setup, const data::Dataset& test, Progress& progress);

  const data::Dataset& test_;
  Progress& progress_;
  data::PixelTable pixels_;
  uint32_t batch_;
  data::Range part_;
  std::unique_ptr<engine::Net> net_;
  std::vector<float> images_;
  std::vector<uint32_t> labels_;
};

}  // namespace tern::train
