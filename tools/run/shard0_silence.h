// Since when shard 0, which reports progress twice a second, has reported nothing, and what
// `tern run` does about it.
//
//   quiet --report or stop signal--> watched --silent for `notice_after`--> a notice is due
//                                            --silent for `end_after`, stopped--> the end is due
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace tern::tools {

// Not thread-safe.
class Shard0Silence {
 public:
  // A notice is due after this silence; and after a stop signal to shard 0, the end of all.
  struct Limits {
    Time notice_after = std::chrono::seconds(3), end_after = std::chrono::seconds(6);
  };
  explicit Shard0Silence(const Limits& limits) : limits_(limits) {}

  // `has_begun`: whether the job has; else no notice is due.
  void OnReport(bool has_begun, Time now);
  // A stop signal was passed to shard 0.
  void OnStop(Time now);
  // Shard 0 has reported the end, or does not run: until its next report nothing is due.
  void Cease();
  // A notice was due: one more is due at this time, if shard 0 is still silent; or none.
  void SetNotice(std::optional<Time> at) { notice_at_ = at; }

  bool IsNoticeDue(Time now) const { return notice_at_.has_value() && now >= *notice_at_; }
  bool IsEndDue(Time now) const { return end_at_.has_value() && now >= *end_at_; }
  // When one of both is due next; empty: not before the next event.
  std::optional<Time> NextDue() const;
  // "server 0 has reported nothing for 4 s"; and, for the end, what follows from it.
  std::string Text(Time now) const;
  std::string EndText(Time now) const;

 private:
  const Limits limits_;
  Time heard_at_{};  // the newest report, or the stop signal if that came later
  std::optional<Time> notice_at_, end_at_;
};

// The last line of a process's log.
struct LastLine {
  std::string process;  // Such as "worker 1".
  std::string text;
};
// Returns those that tell whom a process awaits or has lost, each on a line of its own after its
// process; of several with the same text, the first.
std::string LinesOfWaiting(const std::vector<LastLine>& last_lines);

}  // namespace tern::tools
