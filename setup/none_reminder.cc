#include "setup/none_reminder.h"

namespace tern::setup {

bool NoneReminder::IsDue(Time now) {
  if (!is_needed_) return false;
  const bool is_due = next_at_.has_value() && now >= *next_at_;
  if (is_due || !next_at_.has_value()) next_at_ = now + std::chrono::minutes(1);
  return is_due;
}

}  // namespace tern::setup
