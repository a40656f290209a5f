// What a worker keeps of a tensor for deep gradient compression (Lin et al. 2018; algorithm 7 of
// the hitchhiker's survey): the momentum U and the sum V of what was not sent yet.
//
//   g = g * min(1, c / ||g||)                   local gradient clipping, c = clip_norm (0: none)
//   U = m U + g,        V = V + U               momentum correction
//   U = m (U + g),      V = V + (U + g)         the same with Nesterov's momentum
//   send V where it is large;  there V = 0, and U = 0                momentum factor masking
//
// V is what is to be coded. It holds every gradient until it is sent, also one whose round took
// place without this worker. The optimizer must then have no momentum of its own. With m = 0 and
// without clipping V is error feedback (error_feedback.h).
#pragma once

#include <vector>

#include "common/codec/codec.h"

namespace tern::codec {

class DgcMemory : public Memory {
 public:
  DgcMemory(uint64_t count, const Options::TopK& options);

  // REQUIRES the whole tensor where gradients are clipped: ||g|| is the tensor's.
  void Compensate(uint64_t begin, std::span<const float> g, std::span<float> v) override;
  void Keep(uint64_t begin, std::span<const float> v, std::span<const float> sent) override;
  void AddState(SavedState* state) override;
  void Forget() override;

 private:
  const Options::TopK options_;
  std::vector<float> momentum_;     // U; empty where m is 0
  std::vector<float> accumulated_;  // V
};

}  // namespace tern::codec
