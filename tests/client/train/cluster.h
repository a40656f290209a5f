// Several workers of one job in one process. Each worker runs the real Trainer on a thread of its
// own. Gradients come from an analytic function, and the servers' real code adds up what workers
// push. RunCluster records the weights at which each worker computed gradients, and W (the weights
// that the workers agree on) after each round. Tests compare them with a reference.
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

// Writes the gradient g_k = a_k (w_k - b_k(rank, step)) of a quadratic function, for the elements
// k < n. a_k > 0 and b_k are pseudorandom; b_k differs for every worker and step. Steps count from
// 1.
template <typename Float>
void AnalyticGradient(uint32_t rank, uint64_t step, const Float* w, size_t n, Float* g);
extern template void AnalyticGradient(uint32_t, uint64_t, const float*, size_t, float*);
extern template void AnalyticGradient(uint32_t, uint64_t, const double*, size_t, double*);

// The same gradient of all of w.
std::vector<double> GradientAt(uint32_t rank, uint64_t step, const std::vector<double>& w);

// The weights with which the job begins.
std::vector<double> InitialWeights(const setup::Setup& job);

// What RunCluster records of one worker.
struct Trace {
  // points[s - 1]: the weights at which the worker computed the gradient of step s.
  std::vector<std::vector<float>> points;
  // The worker's copy of W after each round.
  std::map<uint64_t, std::vector<float>> weights_after_round;
  std::vector<float> final_weights;
  Floats average_weights;  // The moving average of the weights at the end, if the job asks for one.
  // The weights of the States that the worker gave away in the middle of its steps, by the round
  // after which each was (ClusterOptions::asks_for_states). A later one replaces an earlier one.
  std::map<uint64_t, std::vector<float>> given_weights;
  uint64_t num_loss_samples = 0;  // Of how many samples the worker reported the loss at the end.
  uint64_t num_pulls = 0;         // How many chunks the worker pulled without a push.
  Status status;                  // What Trainer::Run returned.
};

struct ClusterOptions {
  uint64_t steps = 30;
  uint64_t seed = 1;  // Decides the order of pushes in algorithms without rounds.
  // Whether each worker is asked for its State with every push, before the answer to it.
  bool asks_for_states = false;
};

// Runs all workers of the job to the end and returns their traces by rank. For algorithms without
// rounds, appends to `push_order` the rank of each exchange (a push of the whole model with its
// answer), in the order in which the servers processed the exchanges.
std::vector<Trace> RunCluster(const setup::Setup& job, const ClusterOptions& options,
                              std::vector<uint32_t>* push_order = nullptr);

// Returns |a - b| / |b| in the 2-norm; 1e9 if the sizes differ.
double RelativeDistance(std::span<const float> a, const std::vector<double>& b);

}  // namespace tern::client
