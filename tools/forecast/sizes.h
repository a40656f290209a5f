// Computes how many bytes a round of the exchange sends over a worker's connections. The sizes of
// codes are measured with Gaussian gradients, because the size of some codes depends on the values.
// Message headers and ZMTP framing count, but not the headers of TCP and of the link. The result
// depends on the exchange plan only.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "common/protocol/plan/plan.h"

namespace tern::tools {

struct BucketBytes {
  // The bytes of the messages in which one worker sends its scalers (the multipliers of codes) and
  // gets the shared scalers back. Both are 0 if there are no such messages.
  double scale_bytes = 0, scaled_bytes = 0;
  // The bytes of the requests with which one worker pulls the weights before it pushes, and of the
  // answers. Both are 0 if it does not (ExchangePlan::pulls_first).
  double pull_bytes = 0, pulled_bytes = 0;
  // By chunk: the bytes of the push that one worker sends, and of the answer that it gets.
  std::vector<double> push_bytes, sum_bytes;
  // By chunk: the bytes of the push that a host's leader sends for all workers of the host
  // (exchange.host_sum). Empty if the codecs do not allow that, or hosts have one worker.
  std::vector<double> host_push_bytes;
};

// A segment is a piece of a chunk, within one tensor. SizesOf encodes at most this many elements of
// a segment (rounded up to whole groups of elements that the codec encodes together) and
// extrapolates.
inline constexpr uint64_t kSampledElements = 32768;
// Returns the bytes of each bucket in a round to which all workers contribute. With central
// parameters (the servers hold the weights) `sum_bytes` is the answer with the weights.
// `workers_a_host` is at most the number of workers.
Result<std::vector<BucketBytes>> SizesOf(const protocol::ExchangePlan& plan,
                                         uint32_t workers_a_host = 1);

struct RoundTotals {
  double up = 0, down = 0;  // Bytes that one worker sends, and that it receives.
};
RoundTotals TotalsOf(const std::vector<BucketBytes>& sizes);
// The bytes that the workers of one host together send and receive. With `host_sum` REQUIRES sizes
// with host_push_bytes.
RoundTotals TotalsOfHost(const std::vector<BucketBytes>& sizes, uint32_t workers_a_host,
                         bool host_sum);

// Returns `count` independent normal values with mean 0 and standard deviation 1e-3. The values
// depend on `rank` only.
std::vector<float> GaussianValues(uint16_t rank, uint64_t count);

}  // namespace tern::tools
