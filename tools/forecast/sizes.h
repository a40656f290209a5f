// The bytes of a round on a connection. Codes of Gaussian gradients are measured, because the size
// of some codes depends on the values. Counts message headers and ZMTP framing, but not the headers
// of TCP and of the link. A pure function of the plan.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "common/protocol/plan/plan.h"

namespace tern::tools {

struct BucketBytes {
  double scale = 0, scaled = 0;   // of one worker, up and down; 0: the bucket shares no scalers
  std::vector<double> push, sum;  // of one worker, up and down, by chunk
};

// Returns the bytes of each bucket in a round to which all workers contribute. With central
// parameters `sum` is the servers' answer. Only the first kSampledElements of a segment are coded;
// the size is extrapolated.
inline constexpr uint64_t kSampledElements = 32768;
Result<std::vector<BucketBytes>> SizesOf(const protocol::ExchangePlan& plan);

struct RoundTotals {
  double up = 0, down = 0;  // of one worker
};
RoundTotals TotalsOf(const std::vector<BucketBytes>& sizes);

// Independent normal values with standard deviation 1e-3, a pure function of `rank`.
std::vector<float> GaussianValues(uint16_t rank, uint64_t count);

}  // namespace tern::tools
