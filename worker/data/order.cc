#include "worker/data/order.h"

#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include "kernels/codes/philox.h"

namespace tern::data {
namespace {

// A sequence of random numbers.
class RandomSequence {
 public:
  explicit RandomSequence(const kernels::NoiseKey& key) : key_(key) {}

  // Returns a uniform random number in 0 .. bound - 1 (Lemire, "Fast random integer generation in
  // an interval", 2019): the high word of (random word) * bound. Takes another random word if the
  // low word of the product falls into the short interval that would bias the result.
  uint32_t NextBelow(uint32_t bound) {
    const uint32_t rejected_below = (0u - bound) % bound;
    for (;;) {
      const uint64_t product = uint64_t{NextWord()} * bound;
      if (static_cast<uint32_t>(product) >= rejected_below)
        return static_cast<uint32_t>(product >> 32);
    }
  }

 private:
  uint32_t NextWord() {
    if (num_words_used_ == block_words_.size()) {
      block_words_ = kernels::NoiseBlock(key_, next_block_++, 0);
      num_words_used_ = 0;
    }
    return block_words_[num_words_used_++];
  }

  const kernels::NoiseKey key_;
  std::array<uint32_t, 4> block_words_;  // The current block of the Philox generator.
  size_t num_words_used_ = 4;            // How many words of the current block were returned.
  uint32_t next_block_ = 0;              // The number of the next block.
};

}  // namespace

std::vector<uint32_t> EpochPermutation(uint64_t seed, uint16_t rank, uint64_t epoch,
                                       uint32_t count) {
  RandomSequence sequence(
      {.seed = seed, .stream = kernels::NoiseStream::kOrder, .rank = rank, .round = epoch});
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[sequence.NextBelow(i)]);
  return order;
}

}  // namespace tern::data
