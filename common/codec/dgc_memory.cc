// Momentum correction, local clipping and momentum factor masking of deep gradient compression (Lin
// et al. 2018). kernels/codes/dgc_math.h has the arithmetic of one element, for CPU and GPU.
#include "common/codec/dgc_memory.h"

#include "kernels/codes/dgc_math.h"
#include "kernels/codes/stats.h"

namespace tern::codec {

DgcMemory::DgcMemory(uint64_t count, const Options::TopK& options)
    : options_(options), momentum_(options.momentum > 0 ? count : 0), accumulated_(count) {}

std::span<const float> DgcMemory::Compensate(uint64_t begin, std::span<const float> g,
                                             std::span<float> /*v*/) {
  float scale = 1;
  if (options_.clip_norm > 0)
    scale = kernels::DgcScale(options_.clip_norm,
                              kernels::ComputeStats(g.data(), g.size()).sum_squares);
  const kernels::DgcStep step{static_cast<float>(options_.momentum), options_.nesterov,
                              options_.clip_norm};
  float* accumulated = accumulated_.data() + begin;
  if (momentum_.empty()) {
    for (size_t i = 0; i < g.size(); ++i)
      kernels::AddToDgcElement<false>(step, scale, g[i], nullptr, accumulated + i);
  } else {
    float* momentum = momentum_.data() + begin;
    for (size_t i = 0; i < g.size(); ++i)
      kernels::AddToDgcElement<true>(step, scale, g[i], momentum + i, accumulated + i);
  }
  return {accumulated, g.size()};
}

// The loops are branch-free, so that compilers vectorize them.
void DgcMemory::Update(uint64_t begin, std::span<const float> v, std::span<const float> sent) {
  float* accumulated = accumulated_.data() + begin;
  for (size_t i = 0; i < v.size(); ++i) accumulated[i] = v[i] - sent[i];
  if (!options_.masking || momentum_.empty()) return;
  float* momentum = momentum_.data() + begin;
  for (size_t i = 0; i < v.size(); ++i) {
    const float kept = momentum[i];
    momentum[i] = sent[i] != 0 ? 0 : kept;
  }
}

void DgcMemory::UpdateSparse(uint64_t begin, std::span<const float> /*v*/,
                             std::span<const uint32_t> positions) {
  for (const uint32_t i : positions) accumulated_[begin + i] = 0;
  if (!options_.masking || momentum_.empty()) return;
  for (const uint32_t i : positions) momentum_[begin + i] = 0;
}

void DgcMemory::AddState(SavedState* state) {
  state->arrays.push_back({"accumulated", accumulated_});
  if (!momentum_.empty()) state->arrays.push_back({"momentum", momentum_});
}

void DgcMemory::Reset() {
  momentum_.assign(momentum_.size(), 0);
  accumulated_.assign(accumulated_.size(), 0);
}

}  // namespace tern::codec
