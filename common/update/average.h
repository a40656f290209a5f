// Moving average of the weights (EMA), for evaluation: of a replica or of a server's part of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::update {

// min(decay, (1 + t) / (10 + t)), t the number of updates done before.
double EmaDecay(double decay, uint64_t t);

// After update `update` (from 1) has made w: average = d average + (1 - d) w, by element, with
// d = EmaDecay(decay, update - 1).
void AverageWeights(float* average, const float* w, size_t n, double decay, uint64_t update);

}  // namespace tern::update
