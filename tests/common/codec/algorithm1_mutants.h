// Mutants of TernGrad's Algorithm 1: variants of Tern's code with one planted fault each. Training
// on MNIST would not reveal these faults; the comparison of every step with a reference must.
#pragma once

#include <string>

#include "tests/common/codec/algorithm1_pipeline.h"

namespace tern::codec {

enum class Mutant {
  kServerIgnoresAWorker,  // The server adds zeros in place of the last worker's codes.
  kTruncatedNoise,        // Only 4 bits of each random number decide on a code.
  kNoClipping,            // Gradients are encoded without clipping.
  kScalerNotShared,       // Each worker encodes with its own scaler.
  kSignSwapped,           // One sign is flipped in every payload of rank 1 that has signs.
  kTensorLeftOut,         // One tensor is neither exchanged nor updated.
  kWeightDecayMissing,
  kMomentumMissing,
  kNoiseOfOneRank,     // All workers use the random numbers of rank 0.
  kNoiseOfOneRound,    // Every round uses the random numbers of round 0.
  kNoiseOfOneSegment,  // Every segment (part of a tensor) uses the tensor's first random numbers.
  kSumNotDivided,      // The workers' sum is not divided by their number.
};

std::string NameOf(Mutant mutant);
// The components of a correct pipeline, except for the fault `mutant`.
Components FaultyComponents(const Problem& problem, Mutant mutant);

// Wraps `inner` in a codec that uses the random numbers of rank 0 on every worker.
std::unique_ptr<Codec> WithNoiseOfOneRank(std::unique_ptr<Codec> inner);

}  // namespace tern::codec
