// Several workers of one job in one process. Each has a thread with the real Trainer; gradients
// come from an analytic problem, and the servers' cells are the real ones. Records the weights at
// which each worker computed gradients, and W after each round, for comparison with a reference.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/train/compute.h"
#include "common/base/floats.h"
#include "setup/setup.h"

namespace tern::client {

// g_k = a_k (w_k - b_k(rank, step)): quadratic, different for every worker and step (from 1).
template <typename Float>
void AnalyticGradient(uint32_t rank, uint64_t step, const Float* w, size_t n, Float* g);
extern template void AnalyticGradient(uint32_t, uint64_t, const float*, size_t, float*);
extern template void AnalyticGradient(uint32_t, uint64_t, const double*, size_t, double*);

// The trace of one worker.
struct Trace {
  std::vector<std::vector<float>> points;  // the weights at which it computed gradients, by step
  std::map<uint64_t, std::vector<float>> weights;  // W by round
  std::vector<float> last;                         // W at the end
  Floats average;      // its moving average at the end, if the job has one
  uint64_t pulls = 0;  // chunks that it requested without a push
  Status status;
};

struct ClusterOptions {
  uint64_t steps = 30;
  uint64_t seed = 1;  // for the order of pushes, without rounds
};

// Runs all workers of the job to its end. `order`: without rounds, the ranks in the order in which
// their exchanges were counted.
std::vector<Trace> RunCluster(const setup::Setup& job, const ClusterOptions& options,
                              std::vector<uint32_t>* order = nullptr);

// |a - b| / |b|, 2-norms.
double RelativeDistance(std::span<const float> a, const std::vector<double>& b);

}  // namespace tern::client
