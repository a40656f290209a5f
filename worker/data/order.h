// The shuffled order of the samples in an epoch. It is a pure function of (seed, rank, epoch), the
// same on every machine.
#pragma once

#include <cstdint>
#include <vector>

namespace tern::data {

// Returns a uniformly random permutation of 0 .. count - 1. `rank` is the worker's number, or 0 for
// an order that all workers share. The algorithm must not change, because another order would
// change the results of jobs: Fisher-Yates from the last index down, where each index i is swapped
// with an unbiased random index from 0 .. i. The random words are those of the Philox generator at
// level 0 (kernels/codes/philox.h): word number d is word d % 4 of block d / 4. The generator's key
// has the seed, the rank, stream kOrder, round = epoch and tensor = 0.
std::vector<uint32_t> EpochPermutation(uint64_t seed, uint16_t rank, uint64_t epoch,
                                       uint32_t count);

}  // namespace tern::data
