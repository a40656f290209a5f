// Reminds the operator of a job with `security: none`.
#pragma once

#include <optional>

#include "common/base/clock.h"
#include "proto/job.pb.h"

namespace tern::setup {

inline constexpr const char* kNoneWarning =
    "security: none: peers are not authenticated; anyone who can reach the ports may take part";

class NoneReminder {
 public:
  explicit NoneReminder(const pb::Job& job) : is_needed_(job.security() == pb::Job::none) {}

  // Whether it is time to log kNoneWarning again: each minute after the first call.
  bool IsDue(Time now);

 private:
  const bool is_needed_;
  std::optional<Time> next_at_;
};

}  // namespace tern::setup
