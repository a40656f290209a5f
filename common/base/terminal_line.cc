#include "common/base/terminal_line.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace tern {

namespace {

bool KnowsControlSequences() {
  const char* const terminal = std::getenv("TERM");
  return terminal == nullptr || std::string_view(terminal) != "dumb";
}

}  // namespace

TerminalLine::TerminalLine(int fd)
    : fd_(fd), is_in_place_(isatty(fd) == 1 && KnowsControlSequences()) {}

size_t TerminalLine::columns() const {
  winsize window_size{};
  return ioctl(fd_, TIOCGWINSZ, &window_size) == 0 && window_size.ws_col > 1 ? window_size.ws_col
                                                                             : 80;
}

void TerminalLine::Redraw(const std::string& line) {
  if (!CanWrite() || !mutex_.TryLock()) return;
  Write("\r" + line.substr(0, columns() - 1) + "\x1b[K");
  has_open_line_ = true;
  mutex_.Unlock();
}

void TerminalLine::Erase() {
  const MutexLock lock(mutex_);
  if (has_open_line_) Write("\r\x1b[K");
  has_open_line_ = false;
}

void TerminalLine::End() {
  const MutexLock lock(mutex_);
  if (has_open_line_) Write("\n");
  has_open_line_ = false;
}

void TerminalLine::Print(const std::string& text) {
  const MutexLock lock(mutex_);
  PrintLocked(text);
}

void TerminalLine::TryPrint(const std::string& text) {
  if (!CanWrite() || !mutex_.TryLock()) return;
  PrintLocked(text);
  mutex_.Unlock();
}

void TerminalLine::PrintLocked(const std::string& text) {
  Write((has_open_line_ ? "\n" : "") + text + (text.ends_with('\n') ? "" : "\n"));
  has_open_line_ = false;
}

bool TerminalLine::CanWrite() const {
  pollfd writable{fd_, POLLOUT, 0};
  return poll(&writable, 1, 0) == 1 && (writable.revents & POLLOUT) != 0;
}

// What cannot be written is lost.
void TerminalLine::Write(const std::string& text) const {
  std::fflush(fd_ == STDOUT_FILENO ? stdout : stderr);  // What others have printed comes first.
  for (size_t num_written = 0; num_written < text.size();) {
    const ssize_t n = write(fd_, text.data() + num_written, text.size() - num_written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    num_written += static_cast<size_t>(n);
  }
}

TerminalLine& StderrLine() {
  static auto* const line =
      new TerminalLine(STDERR_FILENO);  // Never deleted: threads may log late.
  return *line;
}

}  // namespace tern
