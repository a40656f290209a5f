// The factor that keeps gradients of half precision from vanishing (Micikevicius et al. 2018,
// section 3.2): halved when one overflows, doubled when none has for a while. Internal to the
// engine.
#pragma once

#include <cstdint>

namespace tern::engine {

class LossScale {
 public:
  float scale() const { return scale_; }
  // Of a step that was taken with it. Whether it is to be taken again, with the scale as it is now:
  // not where there is none left to halve.
  bool Follow(bool overflowed) {
    if (!overflowed) {
      if (++good_ % kPatience == 0 && scale_ < kLargest) scale_ *= 2;
      return false;
    }
    good_ = 0;
    if (scale_ <= 1) return false;
    scale_ /= 2;
    return true;
  }

 private:
  static constexpr float kLargest = 1 << 24;
  static constexpr uint64_t kPatience = 2000;  // steps
  float scale_ = 1 << 16;
  uint64_t good_ = 0;
};

}  // namespace tern::engine
