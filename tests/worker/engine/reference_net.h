// The reference for the engine: forward and backward of a net, computed by plain loops in double
// precision, straight from the definitions in net.proto.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/graph/shapes.h"
#include "proto/net.pb.h"

namespace tern::engine {

struct ReferenceRun {
  double loss = 0;                 // mean over the used samples
  uint64_t correct = 0;            // the number of used samples that are classified correctly
  std::vector<double> gradients;   // gradients of `loss`, in the order of the parameter array
  std::vector<double> scores;      // the input of the loss layer, shape [batch, classes]
  std::vector<double> statistics;  // batch norm's running statistics after the run
};

struct ReferenceFeed {
  uint32_t batch = 0;
  std::span<const float> parameters, statistics, images;
  std::span<const uint32_t> labels;
  uint32_t used = 0;  // only the first `used` samples of the batch count
  bool training = true;
  uint64_t seed = 0, step = 0;  // these determine the random numbers of dropout
};

// Runs the net forward and backward. REQUIRES a net that models::BuildNet has completed.
ReferenceRun RunReference(const pb::NetDef& net, const ReferenceFeed& feed);

}  // namespace tern::engine
