#include "common/codec/dgc_memory.h"

#include <cmath>

#include "kernels/stats.h"

namespace tern::codec {

DgcMemory::DgcMemory(uint64_t count, const Options::TopK& options)
    : options_(options), momentum_(options.momentum > 0 ? count : 0), accumulated_(count) {}

void DgcMemory::Compensate(uint64_t begin, std::span<const float> g, std::span<float> v) {
  float scale = 1;
  if (options_.clip_norm > 0) {
    const double norm = std::sqrt(kernels::ComputeStats(g.data(), g.size()).sum_squares);
    if (norm > options_.clip_norm) scale = static_cast<float>(options_.clip_norm / norm);
  }
  const auto m = static_cast<float>(options_.momentum);
  for (size_t i = 0; i < g.size(); ++i) {
    float step = scale * g[i];
    if (!momentum_.empty()) {
      float& u = momentum_[begin + i];
      const float pushed = u + step;
      u = options_.nesterov ? m * pushed : m * u + step;
      step = options_.nesterov ? u + step : u;
    }
    accumulated_[begin + i] += step;
    v[i] = accumulated_[begin + i];
  }
}

void DgcMemory::Keep(uint64_t begin, std::span<const float> v, std::span<const float> sent) {
  for (size_t i = 0; i < v.size(); ++i) {
    accumulated_[begin + i] = v[i] - sent[i];
    if (options_.masking && !momentum_.empty() && sent[i] != 0) momentum_[begin + i] = 0;
  }
}

void DgcMemory::AddState(SavedState* state) {
  state->arrays.push_back({"accumulated", accumulated_});
  if (!momentum_.empty()) state->arrays.push_back({"momentum", momentum_});
}

void DgcMemory::Forget() {
  momentum_.assign(momentum_.size(), 0);
  accumulated_.assign(accumulated_.size(), 0);
}

}  // namespace tern::codec
