#include "tools/run/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "common/base/text.h"

namespace tern::tools {

size_t ScreenColumns() {
  winsize window_size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &window_size) == 0 && window_size.ws_col > 1
             ? window_size.ws_col
             : 80;
}

Screen::Screen() : is_terminal_(isatty(STDOUT_FILENO) == 1) {}

void Screen::PrintLine(const std::string& line) {
  EndLine();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void Screen::ShowProgress(const std::string& progress_json, Time now) {
  const std::optional<setup::ProgressUpdate> update = setup::ParseProgressUpdate(progress_json);
  if (!update.has_value()) return;
  AnnounceResume(*update);
  AnnounceFailedCheckpoints(*update);
  if (!is_terminal_ && (update->rounds == 0 || update->samples == 0 ||
                        (has_shown_progress_ && now - shown_at_ < kBetweenLines)))
    return;
  // Speeds are measured from a line of progress that is at least kSpeedInterval old.
  if (!next_begin_json_.empty() && now - next_begin_at_ >= kSpeedInterval) {
    interval_begin_json_ = next_begin_json_;
    next_begin_json_.clear();
  }
  if (next_begin_json_.empty()) {
    next_begin_json_ = progress_json;
    next_begin_at_ = now;
  }
  std::string line = setup::ProgressLine(progress_json, interval_begin_json_);
  has_shown_progress_ = true;
  shown_at_ = now;
  if (!is_terminal_) return PrintLine(line);
  line = line.substr(0, ScreenColumns() - 1);  // A wrapped line cannot be redrawn.
  std::printf("\r%s\x1b[K", line.c_str());
  std::fflush(stdout);
  has_open_line_ = true;
}

void Screen::AnnounceResume(const setup::ProgressUpdate& update) {
  if (!update.beginning.empty() && update.beginning != beginning_id_) {
    beginning_id_ = update.beginning;
    may_announce_resume_ = true;
  }
  const bool went_back = update.rounds > 0 && update.rounds < newest_rounds_;
  if (may_announce_resume_ && (update.from_step > 0 || went_back)) {
    PrintLine(update.from_step < newest_rounds_
                  ? Cat("goes back from step ", newest_rounds_, " to step ", update.from_step)
                  : Cat("goes on from step ", update.from_step));
    may_announce_resume_ = false;
  } else if (update.rounds > newest_rounds_) {
    may_announce_resume_ = false;  // The job began at step 0, so there is nothing to announce.
  }
  if (update.rounds > 0) newest_rounds_ = update.rounds;
}

void Screen::AnnounceFailedCheckpoints(const setup::ProgressUpdate& update) {
  if (update.failed_checkpoints == 0 || has_announced_failure_) return;
  has_announced_failure_ = true;
  PrintLine(
      "a checkpoint could not be written; the log of the server names the daemon, whose log says "
      "why");
}

void Screen::EndLine() {
  if (has_open_line_) std::printf("\n");
  has_open_line_ = false;
}

}  // namespace tern::tools
