// Error feedback (Seide et al. 2014): adds what a code left out of a gradient to the next gradient.
// With the gradient g, the residual r (0 at first) and fl(), the rounding to float:
//
//   v = fl(g + r)
//   send code(v)
//   r = fl(v - decoded(code(v)))
//
// Only for codecs that are not random: an unbiased random code with a large variance is not a
// contraction, and r would grow (docs/ALGORITHMS.md, section 18).
#pragma once

#include <memory>
#include <vector>

#include "common/base/floats.h"
#include "common/codec/codec.h"

namespace tern::codec {

// The residual r of a tensor on a worker, or of a segment (a range of a tensor) on a server.
class ErrorFeedback : public Memory {
 public:
  explicit ErrorFeedback(uint64_t count) : residual_(count) {}

  std::span<const float> Compensate(uint64_t begin, std::span<const float> g,
                                    std::span<float> v) override;
  void Update(uint64_t begin, std::span<const float> v, std::span<const float> sent) override;
  void UpdateSparse(uint64_t begin, std::span<const float> v,
                    std::span<const uint32_t> positions) override;
  void AddState(SavedState* state) override { state->arrays.push_back({"residual", residual_}); }
  void Reset() override { residual_.assign(residual_.size(), 0); }

 private:
  Floats residual_;
};

// Returns `inner` with error feedback on the workers; `inner` itself if it already has a memory.
// kBadJob if `inner` is stochastic and has no memory.
Result<std::unique_ptr<Codec>> WithErrorFeedback(std::unique_ptr<Codec> inner);

}  // namespace tern::codec
