#include "common/base/terminal_line.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "common/base/text.h"

namespace tern {

namespace {

bool KnowsControlSequences() {
  const char* const terminal = std::getenv("TERM");
  return terminal == nullptr || std::string_view(terminal) != "dumb";
}

// Waits until the time `end` for `fd` to take output, or to fail. Returns false if it does not.
bool AwaitWritable(int fd, Time end) {
  while (true) {
    const Time left = std::max(Time(0), end == TerminalLine::kForever ? end : end - Now());
    const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    pollfd writable{fd, POLLOUT, 0};
    const int num_ready = poll(&writable, 1, static_cast<int>(std::min<int64_t>(left_ms, 1 << 30)));
    if (num_ready > 0) return true;
    if (left == Time(0) || (num_ready < 0 && errno != EINTR)) return false;
  }
}

// Writes without waiting. A pipe or terminal is opened once more for that, because O_NONBLOCK on
// `fd` itself would hold for all processes that share it, the shell for example.
class Output {
 public:
  explicit Output(int fd) : fd_(fd) {
    struct stat info {};
    if (fstat(fd, &info) != 0) return;
    is_socket_ = S_ISSOCK(info.st_mode);
    may_wait_ = S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode);
    if (may_wait_)
      own_fd_ =
          open(Cat("/proc/self/fd/", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  }
  ~Output() {
    if (own_fd_ >= 0) close(own_fd_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Like write(), of a part perhaps; EAGAIN if nothing can be written now.
  ssize_t Write(std::string_view text) const {
    if (is_socket_) return send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (own_fd_ >= 0) return write(own_fd_, text.data(), text.size());
    if (!may_wait_) return write(fd_, text.data(), text.size());
    // It may not be opened: it belongs to another user. A little does not wait, most probably.
    if (!AwaitWritable(fd_, Time(0))) {
      errno = EAGAIN;
      return -1;
    }
    return write(fd_, text.data(), std::min<size_t>(text.size(), 512));
  }

 private:
  const int fd_;
  int own_fd_ = -1;
  bool is_socket_ = false, may_wait_ = false;
};

}  // namespace

TerminalLine::TerminalLine(int fd)
    : fd_(fd), is_in_place_(isatty(fd) == 1 && KnowsControlSequences()), patience_at_(Now()) {}

TerminalLine::~TerminalLine() {
  End();
  Drain(kForever);
}

size_t TerminalLine::columns() const {
  winsize window_size{};
  return ioctl(fd_, TIOCGWINSZ, &window_size) == 0 && window_size.ws_col > 1 ? window_size.ws_col
                                                                             : 80;
}

void TerminalLine::Redraw(const std::string& line) {
  if (!CanWrite() || !mutex_.TryLock()) return;
  if (DrainLocked(Time(0))) {
    waiting_ = "\r" + line.substr(0, columns() - 1) + "\x1b[K";
    DrainLocked(Time(0));
    has_open_line_ = true;
  }
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
  Write((has_open_line_ ? "\n" : "") + text + (text.ends_with('\n') ? "" : "\n"));
  has_open_line_ = false;
}

bool TerminalLine::Drain(Time patience) {
  const MutexLock lock(mutex_);
  return DrainLocked(patience);
}

bool TerminalLine::CanWrite() const { return AwaitWritable(fd_, Time(0)); }

void TerminalLine::Write(const std::string& text) {
  std::fflush(fd_ == STDOUT_FILENO ? stdout : stderr);  // What others have printed comes first.
  // After a wait in vain nobody waits again until all that waits is written.
  const bool may_wait = DrainLocked(Time(0));
  const size_t num_waiting = waiting_.size() - waiting_begin_;
  if (num_left_out_ > 0 || (num_waiting > 0 && num_waiting + text.size() > kMaxWaitingBytes)) {
    num_left_out_ += static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
    return;
  }
  waiting_ += text;
  if (!may_wait) return;
  // Calls wait for at most a 32nd of the time after the first kPatience.
  const Time begin = Now();
  patience_ = std::min(kPatience, patience_ + (begin - patience_at_) / 32);
  DrainLocked(patience_);
  patience_at_ = Now();
  patience_ = std::max(Time(0), patience_ - (patience_at_ - begin));
}

bool TerminalLine::DrainLocked(Time patience) {
  if (waiting_.empty()) return true;
  const Time end = patience == kForever ? kForever : Now() + patience;
  const Output output(fd_);
  while (true) {
    const std::string_view rest = std::string_view(waiting_).substr(waiting_begin_);
    const ssize_t n = output.Write(rest);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      if (AwaitWritable(fd_, end)) continue;
      break;
    }
    if (n <= 0) num_left_out_ = 0;  // What can never be written is lost.
    waiting_begin_ += n <= 0 ? rest.size() : static_cast<size_t>(n);
    if (waiting_begin_ < waiting_.size()) continue;
    waiting_begin_ = 0;
    waiting_.clear();
    if (num_left_out_ == 0) return true;
    waiting_ = Cat("(", num_left_out_, " lines are left out here: nobody read this output)\n");
    num_left_out_ = 0;
  }
  if (waiting_begin_ > waiting_.size() / 2) {
    waiting_.erase(0, waiting_begin_);
    waiting_begin_ = 0;
  }
  return false;
}

TerminalLine& StderrLine() {
  static auto* const line =
      new TerminalLine(STDERR_FILENO);  // Never deleted: threads may log late.
  return *line;
}

}  // namespace tern
