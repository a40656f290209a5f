// What `tern run` shows while a job runs: one progress line, in place on a terminal, else a new
// line now and then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "setup/report.h"

namespace tern::tools {

// Of the terminal that stdout is; 80 where it is none.
size_t ScreenColumns();

class Screen {
 public:
  // Writes to stdout.
  Screen();
  ~Screen() { EndLine(); }

  // A line that stays, or several.
  void Say(const std::string& line);
  // Progress as shard 0 wrote it (a ProgressJson). Where the job goes on from a checkpoint, or back
  // to one, a line that stays says so.
  void Progress(const std::string& json, Time now);
  // That line alone, if it has not been said: for a job that ends before any progress is told.
  void SayWhereItGoesOn(const setup::News& news);

 private:
  void EndLine();

  static constexpr Time kBetweenLines = std::chrono::seconds(5);  // where it is no terminal
  static constexpr Time kInterval =
      std::chrono::seconds(2);  // that speed is measured over, at least

  const bool terminal_;
  bool line_open_ = false;
  bool shown_ = false;
  uint64_t rounds_ = 0;    // of the newest progress
  std::string beginning_;  // the newest
  bool begins_ = false;    // it has not been said where that goes on
  Time shown_at_{};
  std::string interval_begin_, newest_;
  Time newest_at_{};
};

}  // namespace tern::tools
