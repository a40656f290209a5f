// The engine's truth: forward and backward of a net by plain loops in double, straight from the
// definitions in net.proto.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/graph/shapes.h"
#include "proto/net.pb.h"

namespace tern::engine {

struct ReferenceRun {
  double loss = 0;  // mean over the first `used` samples
  uint64_t correct = 0;
  std::vector<double> gradients;   // of the mean loss, in canonical order
  std::vector<double> scores;      // what the loss sees, [batch, classes]
  std::vector<double> statistics;  // after a step of training
};

struct ReferenceFeed {
  uint32_t batch = 0;
  std::span<const float> parameters, statistics, images;
  std::span<const uint32_t> labels;
  uint32_t used = 0;
  bool training = true;
  uint64_t seed = 0, step = 0;  // of dropout, on rank 0
};

// REQUIRES a complete net.
ReferenceRun RunReference(const pb::NetDef& net, const ReferenceFeed& feed);

}  // namespace tern::engine
