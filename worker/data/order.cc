#include "worker/data/order.h"

#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include "kernels/codes/philox.h"

namespace tern::data {
namespace {

class Draws {
 public:
  explicit Draws(const kernels::NoiseKey& key) : key_(key) {}

  // Uniform in 0 .. bound - 1 (Lemire, "Fast random integer generation in an interval", 2019): the
  // high word of draw * bound; draws again if the low word falls into the short interval that would
  // bias the result.
  uint32_t Below(uint32_t bound) {
    const uint32_t reject = (0u - bound) % bound;
    for (;;) {
      const uint64_t product = uint64_t{Next()} * bound;
      if (static_cast<uint32_t>(product) >= reject) return static_cast<uint32_t>(product >> 32);
    }
  }

 private:
  uint32_t Next() {
    if (used_ == words_.size()) {
      words_ = kernels::NoiseBlock(key_, block_++, 0);
      used_ = 0;
    }
    return words_[used_++];
  }

  const kernels::NoiseKey key_;
  std::array<uint32_t, 4> words_;
  size_t used_ = 4;
  uint32_t block_ = 0;
};

}  // namespace

std::vector<uint32_t> EpochPermutation(uint64_t seed, uint16_t rank, uint64_t epoch,
                                       uint32_t count) {
  Draws draws({.seed = seed, .stream = kernels::NoiseStream::kOrder, .rank = rank, .round = epoch});
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[draws.Below(i)]);
  return order;
}

}  // namespace tern::data
