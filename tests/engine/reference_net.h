// The engine's truth: forward and backward of a net by plain loops in double, straight from the
// definitions in net.proto.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/shapes.h"
#include "proto/net.pb.h"

namespace tern::engine {

struct ReferenceRun {
  double loss = 0;  // mean over the first `used` samples
  uint64_t correct = 0;
  std::vector<double> gradients;  // of the mean loss, in canonical order
  std::vector<double> scores;     // what the loss sees, [batch, classes]
};

// REQUIRES a complete net that is a chain.
ReferenceRun RunReference(const pb::NetDef& net, uint32_t batch, std::span<const float> parameters,
                          std::span<const float> images, std::span<const uint32_t> labels,
                          uint32_t used);

}  // namespace tern::engine
