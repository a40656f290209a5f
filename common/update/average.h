// Exponential moving average (EMA) of the weights for evaluation, on a worker's replica or on a
// server.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::update {

// min(decay, (1 + t) / (10 + t)), where t is the number of earlier updates (docs/ALGORITHMS.md,
// section 6).
double EmaDecay(double decay, uint64_t t);

// Call after update number `update` (from 1) has written w. By element:
//
//   d       = EmaDecay(decay, update - 1)
//   average = d average + (1 - d) w
void AverageWeights(float* average, const float* w, size_t n, double decay, uint64_t update);

}  // namespace tern::update
