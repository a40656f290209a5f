// Exponential moving average (EMA) of the weights for evaluation, on a worker's replica or on a
// server.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::update {

// Returns min(decay, (1 + t) / (10 + t)), where t is the number of earlier updates: the decay is
// smaller at first, so that the average forgets the initial weights.
double EmaDecay(double decay, uint64_t t);

// Updates the average. Call after update number `update` (from 1) has changed the weights w. For
// each of the n elements:
//
//   d       = EmaDecay(decay, update - 1)
//   average = d average + (1 - d) w
void AverageWeights(float* average, const float* w, size_t n, double decay, uint64_t update);

}  // namespace tern::update
