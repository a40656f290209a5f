#include "common/base/terminal_line.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

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

// A job must not stand still because somebody has pressed Ctrl-S, or does not read a pipe.
TEST(TerminalLine, DoesNotWaitForAStoppedTerminalOrAFullPipe) {
  setenv("TERM", "xterm", 1);
  const Pty pty;
  TerminalLine line(pty.fd());
  ASSERT_EQ(tcflow(pty.fd(), TCOOFF), 0);
  line.Redraw("lost");
  line.TryPrint("lost");
  ASSERT_EQ(tcflow(pty.fd(), TCOON), 0);
  line.Redraw("shown");
  EXPECT_EQ(pty.Read(), "\rshown\x1b[K");

  std::array<int, 2> pipe_fds{};
  ASSERT_EQ(pipe(pipe_fds.data()), 0);
  {
    TerminalLine pipe_line(pipe_fds[1]);
    for (int i = 0; i < 100'000; ++i) pipe_line.TryPrint("a line of twenty-six bytes");
  }
  for (const int fd : pipe_fds) close(fd);
}

}  // namespace
}  // namespace tern
