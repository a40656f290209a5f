// A part of the test set, through the net in its evaluation form.
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
  // All outlive it.
  static Result<std::unique_ptr<Evaluate>> Make(const setup::Setup& setup,
                                                const data::Dataset& test, Replica& replica,
                                                Progress& progress);
  // Sums over one of `parts` equal parts of the set; part < parts.
  engine::Score Run(uint32_t part, uint32_t parts);

 private:
  Evaluate(const setup::Setup& setup, const data::Dataset& test, Progress& progress);

  const data::Dataset& test_;
  Progress& progress_;
  data::PixelTable pixels_;
  uint32_t batch_;
  std::unique_ptr<engine::Net> net_;
  std::vector<float> images_;
  std::vector<uint32_t> labels_;
};

}  // namespace tern::train
