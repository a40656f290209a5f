// Codec ternary with one planted fault in what a worker encodes; `inner` is correct. Experiments
// have these faults as rows, to show what they can tell apart (tests/mutants).
#pragma once

#include <memory>

#include "common/codec/codec.h"

namespace tern::codec {

// Worker 0 encodes zeros, as if the server ignored its gradients.
std::unique_ptr<Codec> WithIgnoredWorker(std::unique_ptr<Codec> inner);
// Only 4 bits of each random number decide on a code.
std::unique_ptr<Codec> WithTruncatedNoise(std::unique_ptr<Codec> inner);

}  // namespace tern::codec
