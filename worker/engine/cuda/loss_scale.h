// The factor by which the loss is multiplied so that gradients in half precision do not vanish
// (Micikevicius et al. 2018, section 3.2). It is halved after an overflow, and doubled after many
// steps without an overflow. Internal to the engine.
#pragma once

#include <cstdint>

namespace tern::engine {

class LossScale {
 public:
  float scale() const { return scale_; }
  // Adapts the scale after a step. `overflowed`: whether a gradient of the step is not finite.
  // Returns true if the step must be repeated with the halved scale; false if no gradient
  // overflowed, or if the scale cannot be halved further.
  bool UpdateAfterStep(bool overflowed) {
    if (!overflowed) {
      if (++steps_without_overflow_ % kStepsBeforeDoubling == 0 && scale_ < kMaxScale) scale_ *= 2;
      return false;
    }
    steps_without_overflow_ = 0;
    if (scale_ <= 1) return false;
    scale_ /= 2;
    return true;
  }

 private:
  static constexpr float kMaxScale = 1 << 24;
  static constexpr uint64_t kStepsBeforeDoubling = 2000;
  float scale_ = 1 << 16;
  uint64_t steps_without_overflow_ = 0;
};

}  // namespace tern::engine
