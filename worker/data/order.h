// The order of an epoch: a permutation that is a pure function of (seed, rank, epoch), the same on
// every machine.
#pragma once

#include <cstdint>
#include <vector>

namespace tern::data {

// A uniformly shuffled 0 .. count - 1: Fisher-Yates from the last index down, each index i swapped
// with an index drawn without bias from 0 .. i. Draw d is word d % 4 of noise block d / 4
// (kernels/codes/philox.h, stream kOrder, round = epoch, tensor = 0, level = 0). `rank` is 0 for an
// order that all ranks share. Must not change: another order would change every golden result.
std::vector<uint32_t> EpochPermutation(uint64_t seed, uint16_t rank, uint64_t epoch,
                                       uint32_t count);

}  // namespace tern::data
