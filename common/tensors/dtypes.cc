#include "common/tensors/dtypes.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tern::tensors {
namespace {

static_assert(std::numeric_limits<double>::is_iec559 && std::numeric_limits<float>::is_iec559);

float FromDouble(double value) {
  // From here on, the nearest float has an exponent too large. A cast would be undefined.
  constexpr double kBeyond = 0x1.ffffffp127;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (std::abs(value) >= kBeyond) return value > 0 ? kInfinity : -kInfinity;
  return static_cast<float>(value);
}

float FromBfloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

float FromHalf(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u,
                 fraction = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // zero or subnormal
  return sign == 0 ? magnitude : -magnitude;
}

template <typename Stored, typename Convert>
void ConvertAll(std::string_view bytes, std::span<float> values, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof stored, sizeof stored);
    values[i] = convert(stored);
  }
}

}  // namespace

size_t FloatBytes(std::string_view dtype) {
  if (dtype == "F32") return sizeof(float);
  if (dtype == "F64") return sizeof(double);
  return dtype == "F16" || dtype == "BF16" ? sizeof(uint16_t) : 0;
}

void ToFloats(std::string_view dtype, std::string_view bytes, std::span<float> values) {
  if (values.empty()) return;
  if (dtype == "F32") {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else if (dtype == "F64") {
    ConvertAll<double>(bytes, values, FromDouble);
  } else {
    ConvertAll<uint16_t>(bytes, values, dtype == "F16" ? FromHalf : FromBfloat);
  }
}

}  // namespace tern::tensors
