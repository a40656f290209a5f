#include "tools/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "common/setup/report.h"

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
  if (!terminal_ && (news->rounds == 0 || (shown_ && now - shown_at_ < kBetweenLines))) return;
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

void Screen::EndLine() {
  if (line_open_) std::printf("\n");
  line_open_ = false;
}

}  // namespace tern::tools
