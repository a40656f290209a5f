#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/codes/philox.h"
#include "models/graph/normal.h"
#include "models/graph/shapes.h"

namespace tern::models {
namespace {

// P(N(0, 1) < -2). A normal number truncated to [-2, 2] is the normal quantile of a number that is
// uniform in [kBelowMinusTwo, 1 - kBelowMinusTwo].
constexpr double kBelowMinusTwo = 0.022750131948179207200;

// Calls put(element, u) for all elements from 0 to count - 1. u = (a random 32-bit number + 0.5) /
// 2^32, which is uniform in (0, 1).
template <typename Put>
void ForEachUniform(const kernels::NoiseKey& key, uint64_t count, const Put& put) {
  for (uint64_t block = 0; 8 * block < count; ++block) {
    const std::array<uint32_t, 4> high_bits =
        kernels::NoiseBlock(key, static_cast<uint32_t>(block), /*level=*/0);
    const std::array<uint32_t, 4> low_bits =
        kernels::NoiseBlock(key, static_cast<uint32_t>(block), /*level=*/1);
    for (uint32_t i = 0; i < 8 && 8 * block + i < count; ++i) {
      const uint32_t shift = i % 2 * 16;
      const uint32_t random_bits =
          (high_bits[i / 2] >> shift & 0xffff) << 16 | (low_bits[i / 2] >> shift & 0xffff);
      put(8 * block + i, (random_bits + 0.5) * 0x1p-32);
    }
  }
}

// Sets the first outputs to copies of the inputs (DiracDef). `values` are weights [outputs, inputs,
// kernel rows, kernel columns] or [outputs, inputs].
void CopyInputs(const Parameter& parameter, float* values) {
  const uint64_t inputs = parameter.shape[1], kernel = parameter.fan_in / inputs;
  const uint64_t rows = parameter.shape.size() > 2 ? parameter.shape[2] : 1;
  const uint64_t columns = kernel / rows, middle = rows / 2 * columns + columns / 2;
  for (uint64_t output = 0; output < std::min<uint64_t>(parameter.shape[0], inputs); ++output) {
    float* const weights = values + output * parameter.fan_in;
    std::fill_n(weights, parameter.fan_in, 0.f);
    weights[output * kernel + middle] = 1;
  }
}

void InitParameter(const Parameter& parameter, const kernels::NoiseKey& key, float* values) {
  const pb::Init& init = parameter.init;
  const auto set_all = [&](const auto& value_of) {
    ForEachUniform(key, parameter.count, [&](uint64_t element, double u) {
      values[element] = static_cast<float>(value_of(u));
    });
  };
  switch (init.kind_case()) {
    case pb::Init::kConstant:
      for (uint64_t i = 0; i < parameter.count; ++i) values[i] = init.constant();
      return;
    case pb::Init::kNormalStd:
      return set_all([&](double u) { return init.normal_std() * NormalQuantile(u); });
    case pb::Init::kTruncatedNormalStd:
      return set_all([&](double u) {
        const double p = kBelowMinusTwo + u * (1 - 2 * kBelowMinusTwo);
        return init.truncated_normal_std() * NormalQuantile(p);
      });
    case pb::Init::kHe: {
      const uint64_t fan = init.he().fan_out() ? parameter.fan_out : parameter.fan_in;
      const double std_deviation = std::sqrt(2.0 / static_cast<double>(fan));
      return set_all([&](double u) { return std_deviation * NormalQuantile(u); });
    }
    case pb::Init::kDirac: {
      const double bound = 1 / std::sqrt(static_cast<double>(parameter.fan_in));
      set_all([&](double u) { return bound * (2 * u - 1); });
      return CopyInputs(parameter, values);
    }
    case pb::Init::kXavier:
    case pb::Init::KIND_NOT_SET: {
      const double bound = std::sqrt(3.0 / static_cast<double>(parameter.fan_in));
      return set_all([&](double u) { return bound * (2 * u - 1); });
    }
  }
}

void InitAll(const std::vector<Parameter>& parameters, uint64_t seed, float* arena) {
  for (const Parameter& parameter : parameters) {
    kernels::NoiseKey key;
    key.seed = seed;
    key.stream = kernels::NoiseStream::kInit;
    key.tensor = parameter.number;
    InitParameter(parameter, key, arena + parameter.offset);
  }
}

}  // namespace

void InitParameters(const ParameterTable& table, uint64_t seed, float* arena) {
  InitAll(table.parameters, seed, arena);
}

void InitFrozen(const ParameterTable& table, uint64_t seed, float* arena) {
  InitAll(table.frozen, seed, arena);
}

void InitStatistics(const ParameterTable& table, float* arena) {
  for (const Statistic& statistic : table.statistics)
    std::fill_n(arena + statistic.offset, statistic.count, statistic.initial);
}

}  // namespace tern::models
