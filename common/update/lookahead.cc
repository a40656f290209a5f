#include "common/update/lookahead.h"

#include "common/update/power.h"

namespace tern::update {

Lookahead::Lookahead(const pb::Lookahead* settings, uint64_t steps)
    : num_steps_(static_cast<double>(steps)) {
  if (settings != nullptr) settings_ = *settings;
}

std::optional<float> Lookahead::OneMinusDecay(uint64_t step) const {
  if (!settings_.has_value() || step % settings_->every_steps() != 0) return std::nullopt;
  const double fraction = static_cast<double>(step) / num_steps_;
  return static_cast<float>(1 - settings_->decay() * Power(fraction, settings_->decay_power()));
}

}  // namespace tern::update
