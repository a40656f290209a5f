#include "common/base/log_limit.h"

#include <utility>

#include "common/base/text.h"

namespace tern {

std::string LogLimit::Line(std::string text, Time now) {
  if (has_logged_ && now - logged_at_ < interval_) {
    ++num_left_out_;
    return "";
  }
  has_logged_ = true;
  logged_at_ = now;
  const uint64_t num_left_out = std::exchange(num_left_out_, 0);
  return num_left_out == 0 ? std::move(text)
                           : Cat(text, " (and ", num_left_out, " more like it before)");
}

}  // namespace tern
