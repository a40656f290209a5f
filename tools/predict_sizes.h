// What travels in a round, in bytes of a connection: from the codecs themselves, which code
// Gaussian gradients, because the size of some codes depends on what is coded. Headers and ZMTP's
// framing are in it; TCP's and the link's are not. A pure function of the plan.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "common/protocol/plan.h"

namespace tern::tools {

struct BucketBytes {
  double scale = 0, scaled = 0;   // up and down of one worker; 0: no scaler of it is shared
  std::vector<double> push, sum;  // by chunk: up and down of one worker
};

// By bucket, with all workers in every sum; what the servers send where they hold the parameters.
// Long segments are coded as far as kSampledElements and taken as many times as they are longer.
inline constexpr uint64_t kSampledElements = 32768;
Result<std::vector<BucketBytes>> SizesOf(const protocol::ExchangePlan& plan);

struct RoundTotals {
  double up = 0, down = 0;  // of one worker
};
RoundTotals TotalsOf(const std::vector<BucketBytes>& sizes);

// Independent values of N(0, 1e-3), the same for the same `rank`.
std::vector<float> GaussianValues(uint16_t rank, uint64_t count);

}  // namespace tern::tools
