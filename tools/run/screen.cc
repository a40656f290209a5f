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

void Screen::Say(const std::string& line) {
  EndLine();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void Screen::Progress(const std::string& json, Time now) {
  const std::optional<setup::News> news = setup::ReadNews(json);
  if (!news.has_value()) return;
  SayWhereItGoesOn(*news);
  if (!terminal_ &&
      (news->rounds == 0 || news->samples == 0 || (shown_ && now - shown_at_ < kBetweenLines)))
    return;
  // The interval begins with the newest line that is old enough.
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
  if (!terminal_) return Say(line);
  line = line.substr(0, ScreenColumns() - 1);  // a line that wraps cannot be written over
  std::printf("\r%s\x1b[K", line.c_str());
  std::fflush(stdout);
  line_open_ = true;
}

void Screen::SayWhereItGoesOn(const setup::News& news) {
  if (!news.beginning.empty() && news.beginning != beginning_) {
    beginning_ = news.beginning;
    begins_ = true;
  }
  const bool fell = news.rounds > 0 && news.rounds < rounds_;
  if (begins_ && (news.from_step > 0 || fell)) {
    Say(news.from_step < rounds_ ? Cat("goes back from step ", rounds_, " to step ", news.from_step)
                                 : Cat("goes on from step ", news.from_step));
    begins_ = false;
  } else if (news.rounds > rounds_) {
    begins_ = false;  // from the very beginning
  }
  if (news.rounds > 0) rounds_ = news.rounds;
}

void Screen::EndLine() {
  if (line_open_) std::printf("\n");
  line_open_ = false;
}

}  // namespace tern::tools
