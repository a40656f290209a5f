#include "tests/common/codec/algorithm1_problem.h"

#include <cmath>
#include <numbers>

namespace tern::codec {
namespace {

// Hashes the words one after another with the finalizer of SplitMix64.
uint64_t HashWords(std::initializer_list<uint64_t> words) {
  uint64_t h = 0;
  for (uint64_t word : words) {
    h += word + 0x9E3779B97F4A7C15;
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9;
    h = (h ^ h >> 27) * 0x94D049BB133111EB;
    h ^= h >> 31;
  }
  return h;
}

// Maps 64 random bits to a number between 0 and 1.
double UniformFromBits(uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

// A number of the standard normal distribution (by Box and Muller) that depends only on the words.
double NormalFromWords(std::initializer_list<uint64_t> words) {
  const uint64_t bits = HashWords(words);
  return std::sqrt(-2 * std::log(UniformFromBits(bits))) *
         std::cos(2 * std::numbers::pi * UniformFromBits(HashWords({bits})));
}

}  // namespace

double Problem::InitialWeight(size_t tensor, size_t element) const {
  return NormalFromWords({seed, 1, tensor, element});
}

double Problem::Gradient(uint64_t step, int worker, size_t tensor, size_t element, double w) const {
  if (tensor == 4) return 0;
  const double curvature = 0.1 + UniformFromBits(HashWords({seed, 2, tensor, element}));
  const double minimum = NormalFromWords({seed, 3, tensor, element});
  const auto rank = static_cast<uint64_t>(worker);
  double noise = NormalFromWords({seed, 4, step, rank, tensor, element}) * (0.5 + 0.2 * worker);
  if (tensor == 0) noise = noise * noise * noise;
  return curvature * (w - minimum) + noise;
}

}  // namespace tern::codec
