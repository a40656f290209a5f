#include "tools/run/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "common/base/text.h"

namespace tern::tools {

size_t ScreenColumns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

Screen::Screen() : terminal_(isatty(STDOUT_FILENO) == 1) {}

void Screen::PrintLine(const std::string& line) {
  EndLine();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void Screen::Progress(const std::string& json, Time now) {
  const std::optional<setup::ProgressUpdate> update = setup::ParseProgressUpdate(json);
  if (!update.has_value()) return;
  AnnounceResume(*update);
  if (!terminal_ &&
      (update->rounds == 0 || update->samples == 0 || (shown_ && now - shown_at_ < kBetweenLines)))
    return;
  // Speeds are measured from a line of progress that is at least kInterval old.
  if (!newest_.empty() && now - newest_at_ >= kInterval) {
    interval_begin_ = newest_;
    newest_.clear();
  }
  if (newest_.empty()) {
    newest_ = json;
    newest_at_ = now;
  }
  std::string line = setup::ProgressLine(json, interval_begin_);
  shown_ = true;
  shown_at_ = now;
  if (!terminal_) return PrintLine(line);
  line = line.substr(0, ScreenColumns() - 1);  // A wrapped line cannot be redrawn.
  std::printf("\r%s\x1b[K", line.c_str());
  std::fflush(stdout);
  line_open_ = true;
}

void Screen::AnnounceResume(const setup::ProgressUpdate& update) {
  if (!update.beginning.empty() && update.beginning != beginning_) {
    beginning_ = update.beginning;
    resume_pending_ = true;
  }
  const bool went_back = update.rounds > 0 && update.rounds < rounds_;
  if (resume_pending_ && (update.from_step > 0 || went_back)) {
    PrintLine(update.from_step < rounds_
                  ? Cat("goes back from step ", rounds_, " to step ", update.from_step)
                  : Cat("goes on from step ", update.from_step));
    resume_pending_ = false;
  } else if (update.rounds > rounds_) {
    resume_pending_ = false;  // The job began at step 0, so there is nothing to announce.
  }
  if (update.rounds > 0) rounds_ = update.rounds;
}

void Screen::EndLine() {
  if (line_open_) std::printf("\n");
  line_open_ = false;
}

}  // namespace tern::tools
