// What `tern run` prints while a job runs: a progress line, which is redrawn on a terminal and
// printed every few seconds elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "setup/report.h"

namespace tern::tools {

// The width of the terminal on stdout; 80 if stdout is not a terminal.
size_t ScreenColumns();

class Screen {
 public:
  // Writes to stdout.
  Screen();
  ~Screen() { EndLine(); }

  // Prints one or more permanent lines.
  void PrintLine(const std::string& line);
  // Shows progress that shard 0 wrote (a ProgressJson). Prints a permanent line first if the job
  // has continued from a checkpoint or gone back to one.
  void Progress(const std::string& json, Time now);
  // Prints that permanent line alone, once: for a job that ends before it reports progress.
  void AnnounceResume(const setup::ProgressUpdate& update);

 private:
  void EndLine();

  static constexpr Time kBetweenLines = std::chrono::seconds(5);  // when stdout is no terminal
  static constexpr Time kInterval = std::chrono::seconds(2);      // speeds cover at least this long

  const bool terminal_;
  bool line_open_ = false;
  bool shown_ = false;
  uint64_t rounds_ = 0;          // of the newest progress
  std::string beginning_;        // of the newest progress
  bool resume_pending_ = false;  // beginning_ is new, and its first step is not known yet
  Time shown_at_{};
  std::string interval_begin_, newest_;
  Time newest_at_{};
};

}  // namespace tern::tools
