#include "common/base/terminal_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "common/base/text.h"

namespace tern {
namespace {

// A terminal of 20 columns.
class Pty {
 public:
  Pty() {
    winsize window{};
    window.ws_col = 20;
    window.ws_row = 5;
    if (openpty(&reader_fd_, &writer_fd_, nullptr, nullptr, &window) != 0) ADD_FAILURE();
  }
  ~Pty() {
    for (const int fd : {reader_fd_, writer_fd_}) close(fd);
  }
  int fd() const { return writer_fd_; }
  // Returns what has been written since the last call.
  std::string Read() const {
    std::string text;
    std::array<char, 4096> piece{};
    pollfd readable{reader_fd_, POLLIN, 0};
    while (poll(&readable, 1, 0) > 0) {
      const ssize_t size = read(reader_fd_, piece.data(), piece.size());
      if (size <= 0) break;
      text.append(piece.data(), static_cast<size_t>(size));
    }
    return text;
  }

 private:
  int reader_fd_ = -1, writer_fd_ = -1;
};

TEST(TerminalLine, RedrawsInPlaceAndCutsToTheWidth) {
  setenv("TERM", "xterm", 1);
  const Pty pty;
  TerminalLine line(pty.fd());
  EXPECT_TRUE(line.is_in_place());
  EXPECT_EQ(line.columns(), 20u);
  line.Redraw("a line with more than twenty characters");
  EXPECT_EQ(pty.Read(), "\ra line with more th\x1b[K");
  line.Print("permanent");
  EXPECT_EQ(pty.Read(), "\r\npermanent\r\n");
  line.Redraw("short");
  line.Erase();
  line.End();
  EXPECT_EQ(pty.Read(), "\rshort\x1b[K\r\x1b[K");
  line.Redraw("last");
  line.End();
  line.End();
  EXPECT_EQ(pty.Read(), "\rlast\x1b[K\r\n");
}

TEST(TerminalLine, ADumbTerminalAndAPipeAreNotRedrawn) {
  setenv("TERM", "dumb", 1);
  const Pty pty;
  EXPECT_FALSE(TerminalLine(pty.fd()).is_in_place());
  setenv("TERM", "xterm", 1);
  std::array<int, 2> pipe_fds{};
  ASSERT_EQ(pipe(pipe_fds.data()), 0);
  TerminalLine line(pipe_fds[1]);
  EXPECT_FALSE(line.is_in_place());
  EXPECT_EQ(line.columns(), 80u);
  for (const int fd : pipe_fds) close(fd);
}

// A pipe that takes no more.
class FullPipe {
 public:
  FullPipe() {
    if (pipe2(fds_.data(), O_CLOEXEC) != 0) ADD_FAILURE();
    fcntl(fds_[1], F_SETFL, O_NONBLOCK);
    while (write(fds_[1], "x", 1) == 1) ++num_filling_;
    fcntl(fds_[1], F_SETFL, 0);
  }
  ~FullPipe() {
    for (const int fd : fds_) close(fd);
  }
  int writer() const { return fds_[1]; }
  // Reads what fills it, and what is written while `line` has not written all.
  std::string ReadWhile(TerminalLine* line) const {
    std::string text;
    std::array<char, 65536> piece{};
    for (bool is_written = false; !is_written;) {
      is_written = line->Drain(Time(0));
      pollfd readable{fds_[0], POLLIN, 0};
      while (poll(&readable, 1, 0) > 0) {
        const ssize_t size = read(fds_[0], piece.data(), piece.size());
        text.append(piece.data(), static_cast<size_t>(size));
      }
    }
    return text.substr(num_filling_);
  }

 private:
  std::array<int, 2> fds_{};
  size_t num_filling_ = 0;
};

// A job must not stand still because somebody has pressed Ctrl-S, or does not read a pipe.
TEST(TerminalLine, AStoppedTerminalGetsItsLinesWhenItGoesOn) {
  setenv("TERM", "xterm", 1);
  const Pty pty;
  TerminalLine line(pty.fd());
  ASSERT_EQ(tcflow(pty.fd(), TCOOFF), 0);
  line.Redraw("lost");
  line.Print("late");
  EXPECT_FALSE(line.Drain(Time(0)));
  EXPECT_EQ(pty.Read(), "");
  ASSERT_EQ(tcflow(pty.fd(), TCOON), 0);
  line.Redraw("shown");
  EXPECT_EQ(pty.Read(), "late\r\n\rshown\x1b[K");
}

TEST(TerminalLine, WaitsOnceForAFullPipeAndLosesNothing) {
  const FullPipe pipe;
  TerminalLine line(pipe.writer());
  std::string expected;
  const Time begin = Now();
  constexpr int kLines = 2000;
  for (int i = 0; i < kLines; ++i) {
    line.Print(Cat("line ", i));
    expected += Cat("line ", i, "\n");
  }
  EXPECT_LT(Now() - begin, kLines * TerminalLine::kPatience / 10);
  EXPECT_EQ(pipe.ReadWhile(&line), expected);
}

TEST(TerminalLine, SaysHowManyLinesItHasLeftOut) {
  const FullPipe pipe;
  TerminalLine line(pipe.writer());
  const std::string two_lines = std::string(500'000, 'a') + "\n" + std::string(500'000, 'b') + "\n";
  for (int i = 0; i < 20; ++i) line.Print(two_lines);
  line.Print("left out");
  const std::string text = pipe.ReadWhile(&line);
  EXPECT_TRUE(text.ends_with("b\n(9 lines are left out here: nobody read this output)\n"))
      << text.substr(text.size() - 100);
  EXPECT_EQ(text.size() / two_lines.size(), TerminalLine::kMaxWaitingBytes / two_lines.size());
}

}  // namespace
}  // namespace tern
