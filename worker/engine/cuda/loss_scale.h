// The factor that keeps half-precision gradients from vanishing (Micikevicius et al. 2018, section
// 3.2): halved after an overflow, doubled after many steps without one. Internal to the engine.
#pragma once

#include <cstdint>

namespace tern::engine {

class LossScale {
 public:
  float scale() const { return scale_; }
  // Call after each step. Returns whether the step must be repeated with the new scale; false if
  // the scale cannot be halved further.
  bool UpdateAfterStep(bool overflowed) {
    if (!overflowed) {
      if (++good_ % kStepsBeforeDoubling == 0 && scale_ < kLargest) scale_ *= 2;
      return false;
    }
    good_ = 0;
    if (scale_ <= 1) return false;
    scale_ /= 2;
    return true;
  }

 private:
  static constexpr float kLargest = 1 << 24;
  static constexpr uint64_t kStepsBeforeDoubling = 2000;  // steps
  float scale_ = 1 << 16;
  uint64_t good_ = 0;
};

}  // namespace tern::engine
