// CUDA's exp, log, pow and tanh may differ from the host's in the last place. So do these, in
// device code: the result is the host's, or a neighbour of it, by the argument and the seed.
// Results that are 0 or not finite are the host's.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tests/kernels/cuda_on_host/streams.h"

namespace cuda_on_host {

// MurmurHash3's mixer.
inline uint64_t Mix(uint64_t bits) {
  bits = (bits ^ bits >> 33) * 0xFF51AFD7ED558CCD;
  bits = (bits ^ bits >> 33) * 0xC4CEB9FE1A85EC53;
  return bits ^ bits >> 33;
}

template <typename T>
T MoveLastPlace(T result, T x, T y = 0) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  if (result == 0 || !std::isfinite(result)) return result;
  const uint64_t draw =
      Mix(Mix(Device::Get().seed() ^ std::bit_cast<Bits>(x)) ^ std::bit_cast<Bits>(y)) % 3;
  if (draw == 0) return result;
  const T infinity = std::numeric_limits<T>::infinity();
  return std::nextafter(result, draw == 1 ? infinity : -infinity);
}

}  // namespace cuda_on_host

// Kernels are in this namespace, so that they find these functions before the host's.
namespace tern::kernels {

inline double exp(double x) { return cuda_on_host::MoveLastPlace(std::exp(x), x); }
inline double log(double x) { return cuda_on_host::MoveLastPlace(std::log(x), x); }
inline double pow(double x, double y) { return cuda_on_host::MoveLastPlace(std::pow(x, y), x, y); }
inline double tanh(double x) { return cuda_on_host::MoveLastPlace(std::tanh(x), x); }
inline float expf(float x) { return cuda_on_host::MoveLastPlace(std::exp(x), x); }
inline float logf(float x) { return cuda_on_host::MoveLastPlace(std::log(x), x); }
inline float powf(float x, float y) { return cuda_on_host::MoveLastPlace(std::pow(x, y), x, y); }
inline float tanhf(float x) { return cuda_on_host::MoveLastPlace(std::tanh(x), x); }
inline float exp(float x) { return expf(x); }
inline float log(float x) { return logf(x); }
inline float pow(float x, float y) { return powf(x, y); }
inline float tanh(float x) { return tanhf(x); }

}  // namespace tern::kernels
