// The interface through which a worker's training reports what it does.
// worker/summary_writer.h implements it and writes files for TensorBoard.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/bytes.h"
#include "proto/wire.pb.h"

namespace tern::client {

class Observer {
 public:
  // One bucket (a range of the model that is encoded together) that was pushed.
  struct PushedBucket {
    uint64_t step = 0;
    uint32_t bucket = 0;
    std::vector<float> values;   // the bucket's values before encoding
    std::vector<Bytes> codes;    // the payload of each chunk of the bucket, in order
    std::vector<float> scalers;  // one scale factor per part (range of elements) of the bucket
    // By part: values are clamped to [-limit, limit] before they are encoded; infinity: they are
    // not.
    std::vector<float> limits;
  };

  virtual ~Observer() = default;

  // --- Called on the compute thread.

  // Called between two steps, with the number of completed steps.
  virtual void OnSteps(uint64_t steps) = 0;
  // Called after an evaluation, with the number of completed steps. `figures`: its results, as sums
  // over all workers.
  virtual void OnEvaluation(uint64_t steps, const pb::Figures& figures) = 0;
  // Returns the number of the current step if OnPushedBucket and OnMean are to get that step's
  // pushes, else 0.
  virtual uint64_t StepToObserve() = 0;
  // Called for each bucket of such a step, when the round has been applied: `mean` is the mean over
  // the workers of what they pushed. Not called if the servers hold the parameters. May block.
  virtual void OnMean(uint64_t step, uint32_t bucket, std::vector<float> mean) = 0;

  // --- Called on the coder thread, which encodes and pushes buckets.

  // Called for each bucket that is pushed in a step that StepToObserve returned. May block.
  virtual void OnPushedBucket(PushedBucket pushed_bucket) = 0;
};

}  // namespace tern::client
