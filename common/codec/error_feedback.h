// Error feedback (Seide et al. 2014): what a code leaves out of a gradient is added to the next.
//
//   v = fl(g + r),  send code(v),  r = fl(v - decoded(code(v)))
//
// Only for codecs that are biased: an unbiased code of large variance is no contraction, and r
// would grow.
#pragma once

#include <memory>
#include <vector>

#include "common/base/floats.h"
#include "common/codec/codec.h"

namespace tern::codec {

class ErrorFeedback : public Memory {
 public:
  explicit ErrorFeedback(uint64_t count) : residual_(count) {}

  void Compensate(uint64_t begin, std::span<const float> g, std::span<float> v) override;
  void Keep(uint64_t begin, std::span<const float> v, std::span<const float> sent) override;
  void AddState(SavedState* state) override { state->arrays.push_back({"residual", residual_}); }
  void Forget() override { residual_.assign(residual_.size(), 0); }

 private:
  Floats residual_;
};

// `inner` with error feedback on the workers. kBadJob where its codes are drawn.
Result<std::unique_ptr<Codec>> WithErrorFeedback(std::unique_ptr<Codec> inner);

}  // namespace tern::codec
