// What `tern run` prints while a job runs: a progress line, which is redrawn on a terminal and
// printed every few seconds elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "setup/report.h"

namespace tern::tools {

// Returns the width of the terminal on stdout in characters; 80 if stdout is not a terminal.
size_t ScreenColumns();

class Screen {
 public:
  // Writes to stdout.
  Screen();
  ~Screen() { EndLine(); }

  // Prints one or more permanent lines.
  void PrintLine(const std::string& line);
  // Shows `json`, the JSON line in which shard 0 reports progress. Prints a permanent line first if
  // the job has continued from a checkpoint or gone back to one.
  void Progress(const std::string& json, Time now);
  // Prints only this permanent line, once. For a job that ends before it reports progress.
  void AnnounceResume(const setup::ProgressUpdate& update);

 private:
  void EndLine();

  static constexpr Time kBetweenLines = std::chrono::seconds(5);  // If stdout is no terminal.
  // Speeds are averages over at least this time.
  static constexpr Time kInterval = std::chrono::seconds(2);

  const bool terminal_;
  bool line_open_ = false;
  bool shown_ = false;           // A progress line was printed.
  uint64_t rounds_ = 0;          // The number of rounds in the newest progress.
  std::string beginning_;        // Identifies the start or restart of the newest progress.
  bool resume_pending_ = false;  // beginning_ is new, and its first step is not known.
  Time shown_at_{};              // The time of the last progress line.
  // Progress lines (JSON): the one from which speeds are measured, and the next such one with its
  // time.
  std::string interval_begin_, newest_;
  Time newest_at_{};
};

}  // namespace tern::tools
