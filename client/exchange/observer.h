// Watches what a worker does, to show it. The worker (worker/summary_writer.h) writes files for
// TensorBoard.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/bytes.h"
#include "proto/wire.pb.h"

namespace tern::client {

class Observer {
 public:
  // A bucket of a push.
  struct Pushed {
    uint64_t step = 0;
    uint32_t bucket = 0;
    std::vector<float> values;   // before coding
    std::vector<Bytes> codes;    // by chunk
    std::vector<float> scalers;  // by part of the bucket
  };

  virtual ~Observer() = default;

  // --- From the compute thread.

  // Called between two steps, with the number of steps done.
  virtual void At(uint64_t steps) = 0;
  // `figures`: of all workers, after `steps` steps.
  virtual void Evaluated(uint64_t steps, const pb::Figures& figures) = 0;
  // The current step if its pushes are to be shown; else 0.
  virtual uint64_t StepToShow() = 0;

  // --- From the coder thread.

  // May wait.
  virtual void Show(Pushed pushed) = 0;
};

}  // namespace tern::client
