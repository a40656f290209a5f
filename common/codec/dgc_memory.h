// A worker's memory of a tensor for deep gradient compression (Lin et al. 2018; algorithm 7 of the
// hitchhiker's survey): the momentum U, and V, the sum of the gradients not sent yet.
//
//   g = g min(1, c / ||g||)    local gradient clipping, c = clip_norm (0: none)
//   U = m U + g                momentum correction
//   V = V + U
//   U = m (U + g)              the same two with Nesterov's momentum
//   V = V + (U + g)
//   V = 0                      where V was sent
//   U = 0                      where V was sent: momentum factor masking
//
// V is coded. It holds every gradient until it is sent, also a gradient whose round closed without
// this worker. The optimizer must not have a momentum of its own. With m = 0 and without clipping,
// V is error feedback (error_feedback.h).
#pragma once

#include <vector>

#include "common/codec/codec.h"

namespace tern::codec {

class DgcMemory : public Memory {
 public:
  DgcMemory(uint64_t count, const Options::TopK& options);

  // With clipping, REQUIRES the whole tensor: ||g|| is the tensor's norm.
  void Compensate(uint64_t begin, std::span<const float> g, std::span<float> v) override;
  void Update(uint64_t begin, std::span<const float> v, std::span<const float> sent) override;
  void AddState(SavedState* state) override;
  void Reset() override;

 private:
  const Options::TopK options_;
  std::vector<float> momentum_;     // U; empty where m is 0
  std::vector<float> accumulated_;  // V
};

}  // namespace tern::codec
