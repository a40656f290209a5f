// The bytes of a round on a connection: measured with the codecs themselves on Gaussian gradients,
// because the size of some codes depends on their values. Includes headers and ZMTP's framing, not
// TCP's and the link's. A pure function of the plan.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "common/protocol/plan/plan.h"

namespace tern::tools {

struct BucketBytes {
  double scale = 0, scaled = 0;   // up and down, of one worker; 0: no scaler of it is shared
  std::vector<double> push, sum;  // by chunk: up and down, of one worker
};

// By bucket, with all workers in every sum; where servers hold the parameters, `sum` is their
// answer. Of long segments the first kSampledElements are coded, and the size is extrapolated.
inline constexpr uint64_t kSampledElements = 32768;
Result<std::vector<BucketBytes>> SizesOf(const protocol::ExchangePlan& plan);

struct RoundTotals {
  double up = 0, down = 0;  // of one worker
};
RoundTotals TotalsOf(const std::vector<BucketBytes>& sizes);

// Independent values from N(0, 1e-3), a function of `rank`.
std::vector<float> GaussianValues(uint16_t rank, uint64_t count);

}  // namespace tern::tools
