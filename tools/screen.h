// What `tern run` shows while a job runs: one progress line, in place on a terminal, else a new
// line now and then.
#pragma once

#include <cstddef>
#include <string>

#include "common/base/clock.h"

namespace tern::tools {

// Of the terminal that stdout is; 80 where it is none.
size_t ScreenColumns();

class Screen {
 public:
  // Writes to stdout.
  Screen();
  ~Screen() { EndLine(); }

  // A line that stays.
  void Say(const std::string& line);
  // Progress as shard 0 wrote it (a ProgressJson).
  void Progress(const std::string& json, Time now);

 private:
  void EndLine();

  static constexpr Time kBetweenLines = std::chrono::seconds(5);  // where it is no terminal
  static constexpr Time kInterval =
      std::chrono::seconds(2);  // that speed is measured over, at least

  const bool terminal_;
  bool line_open_ = false;
  bool shown_ = false;
  Time shown_at_{};
  std::string interval_begin_, newest_;
  Time newest_at_{};
};

}  // namespace tern::tools
