// A worker's memory of a tensor for deep gradient compression (Lin et al. 2018): the momentum U,
// and V, the sum of the momentum that was not sent yet. Both have the size of the tensor. With the
// gradient g of a step, the momentum factor m and c = clip_norm:
//
//   g = g min(1, c / ||g||)    local gradient clipping; skipped if c is 0
//   U = m U + g                momentum correction
//   V = V + U
//
//   U = m (U + g)              with Nesterov's momentum, instead of the two lines above
//   V = V + (U + g)
//
//   V = V - what was sent      after encoding V
//   U = 0                      for elements that were sent, if masking (momentum factor masking)
//
// V is what the codec encodes. Every gradient stays in V until it is sent, even if the servers
// closed the gradient's round without this worker. The optimizer must not use momentum. With m = 0
// and without clipping, V is error feedback (error_feedback.h).
#pragma once

#include <span>

#include "common/base/floats.h"
#include "common/codec/codec.h"

namespace tern::codec {

class DgcMemory : public Memory {
 public:
  DgcMemory(uint64_t count, const Options::TopK& options);

  // With clipping, REQUIRES the whole tensor: ||g|| is the tensor's norm.
  // Returns V itself.
  std::span<const float> Compensate(uint64_t begin, std::span<const float> g,
                                    std::span<float> v) override;
  void Update(uint64_t begin, std::span<const float> v, std::span<const float> sent) override;
  void UpdateSparse(uint64_t begin, std::span<const float> v,
                    std::span<const uint32_t> positions) override;
  void AddState(SavedState* state) override;
  void Reset() override;

 private:
  const Options::TopK options_;
  Floats momentum_;     // U; empty if m is 0
  Floats accumulated_;  // V, what the codec encodes
};

}  // namespace tern::codec
