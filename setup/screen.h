// What `tern run`, or shard 0 if a user has started it, prints while a job runs: a progress line,
// which is redrawn on a terminal and printed every few seconds elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/base/terminal_line.h"
#include "setup/report.h"

namespace tern::setup {

class Screen {
 public:
  // `line` must outlive this object.
  explicit Screen(TerminalLine& line) : line_(line) {}
  ~Screen() { line_.End(); }

  // The keys that have changed since the job last ran, as setup/saved.h tells them: if the job goes
  // on from a checkpoint, the line that says so names them.
  void SetChanges(const std::string& changes) { changes_ = changes; }
  // Prints one or more permanent lines.
  void PrintLine(const std::string& line) { line_.Print(line); }
  // Shows `progress_json`, the line in which shard 0 (the server that coordinates the job) reports
  // progress. If the job has just continued from a checkpoint or gone back, or the first checkpoint
  // could not be written, first prints a permanent line that says so.
  void ShowProgress(const std::string& progress_json, Time now);
  // Prints only the permanent lines of ShowProgress that have not been printed. For the end of a
  // job: a short one ends before it reports progress.
  void Announce(const ProgressUpdate& update);

 private:
  void AnnounceResume(const ProgressUpdate& update);
  std::string ResumeText(const ProgressUpdate& update);
  void AnnounceFailedCheckpoints(const ProgressUpdate& update);

  // The least time between two progress lines, where lines are not redrawn in place.
  static constexpr Time kBetweenLines = std::chrono::seconds(5);
  // The same between two lines with the same text.
  static constexpr Time kBetweenSameLines = std::chrono::minutes(1);
  // Speeds are averages over at least this time.
  static constexpr Time kSpeedInterval = std::chrono::seconds(2);

  TerminalLine& line_;
  bool has_shown_progress_ = false;     // A progress line was printed.
  std::string changes_;                 // of SetChanges; empty after the first resume
  uint64_t newest_rounds_ = 0;          // The steps done, by the newest progress line.
  std::string beginning_id_;            // Identifies the job's latest start or restart.
  bool may_announce_resume_ = false;    // beginning_id_ is new, and its first step is not known.
  bool has_announced_failure_ = false;  // The failure of a checkpoint was announced.
  Time shown_at_{};                     // The time of the last progress line that was printed.
  std::string shown_text_;              // That line.
  // Progress lines in JSON: speeds are measured since the line interval_begin_json_. The line
  // next_begin_json_, of time next_begin_at_, replaces that line once next_begin_json_ is
  // kSpeedInterval old.
  std::string interval_begin_json_, next_begin_json_;
  Time next_begin_at_{};
};

}  // namespace tern::setup
