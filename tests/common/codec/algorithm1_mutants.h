// Mutants for the traces of Algorithm 1: each has a fault that training on MNIST would not reveal.
#pragma once

#include <string>

#include "tests/common/codec/algorithm1_pipeline.h"

namespace tern::codec {

enum class Mutant {
  kServerIgnoresAWorker,
  kTruncatedNoise,  // only 4 bits of a draw decide
  kNoClipping,
  kScalerNotShared,
  kSignSwapped,  // one sign of one worker in every payload
  kTensorLeftOut,
  kWeightDecayMissing,
  kMomentumMissing,
  kNoiseOfOneRank,     // all workers draw rank 0's
  kNoiseOfOneRound,    // every round draws round 0's
  kNoiseOfOneSegment,  // every segment draws from element 0 on
  kSumNotDivided,
};

std::string NameOf(Mutant mutant);
// Correct parts, except for the fault `mutant`.
Parts BrokenParts(const Problem& problem, Mutant mutant);

// `inner` with its noise truncated to 4 bits.
std::unique_ptr<Codec> WithTruncatedNoise(std::unique_ptr<Codec> inner);
// `inner` with every worker drawing rank 0's noise.
std::unique_ptr<Codec> WithNoiseOfOneRank(std::unique_ptr<Codec> inner);

}  // namespace tern::codec
