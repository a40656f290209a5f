// Codec ternary with one planted fault. Tests must notice these faults (algorithm1_mutants.h), and
// experiments have them as rows, to show what they can tell apart (tests/mutants).
#pragma once

#include <memory>

#include "common/codec/codec.h"

namespace tern::codec {

// Zeros are added in place of worker 0's gradients. `inner` is codec ternary.
std::unique_ptr<Codec> WithIgnoredWorker(std::unique_ptr<Codec> inner);
// Only 4 bits of each random number decide on a code. `inner` is codec ternary.
std::unique_ptr<Codec> WithTruncatedNoise(std::unique_ptr<Codec> inner);

}  // namespace tern::codec
