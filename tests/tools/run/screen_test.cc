#include "tools/run/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/text.h"

namespace tern::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

std::string Progress(int round, int present = 2) {
  return Cat(R"({"event":"progress","rounds":)", round, R"(,"steps":100,"samples":)", 10 * round,
             R"(,"train_s":)", round, R"(,"workers":2,"samples_per_s":10,"present":)", present,
             R"(,"loss":0.5})");
}

// The progress of a job that resumed from step `from`, with that `beginning`.
std::string ProgressFrom(const std::string& beginning, int from, int round, int samples) {
  return Cat(R"({"event":"progress","rounds":)", round, R"(,"steps":250,"samples":)", samples,
             R"(,"beginning":")", beginning, R"(","from_step":)", from, "}");
}

int LinesOf(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

TEST(Screen, PrintsALineEveryFiveSecondsWithoutATerminal) {
  testing::internal::CaptureStdout();
  {
    Screen screen;
    screen.Progress(Progress(0), seconds(1));
    for (int half = 0; half < 24; ++half)
      screen.Progress(Progress(1 + half), seconds(2) + half * milliseconds(500));
  }
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(LinesOf(out), 3) << out;
  EXPECT_THAT(out, testing::AllOf(HasSubstr("step 1/100"), HasSubstr("step 11/100"),
                                  HasSubstr("step 21/100"), Not(HasSubstr("\r"))));
}

TEST(Screen, IgnoresOtherLines) {
  testing::internal::CaptureStdout();
  {
    Screen screen;
    screen.Progress("", seconds(1));
    screen.Progress("{\"event\":", seconds(9));
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

std::string ScreenTextOf(const std::vector<std::string>& progress) {
  testing::internal::CaptureStdout();
  {
    Screen screen;
    for (const std::string& one : progress) screen.Progress(one, seconds(1));
  }
  std::string said;
  std::istringstream lines(testing::internal::GetCapturedStdout());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("goes ")) said += line + "\n";
  }
  return said;
}

TEST(Screen, AnnouncesAResumeOnce) {
  EXPECT_EQ(ScreenTextOf({ProgressFrom("", 0, 0, 0), ProgressFrom("b", 0, 0, 0),
                          ProgressFrom("b", 150, 150, 0), ProgressFrom("b", 150, 160, 80),
                          ProgressFrom("b", 150, 170, 160)}),
            "goes on from step 150\n");
  EXPECT_EQ(ScreenTextOf({ProgressFrom("b", 150, 153, 24)}), "goes on from step 150\n");
  EXPECT_EQ(ScreenTextOf({ProgressFrom("b", 0, 0, 0), ProgressFrom("b", 0, 5, 40)}), "");
}

TEST(Screen, AnnouncesThatAJobGoesBack) {
  EXPECT_EQ(ScreenTextOf({ProgressFrom("b", 0, 100, 800), ProgressFrom("c", 0, 100, 800),
                          ProgressFrom("c", 90, 100, 0), ProgressFrom("c", 90, 91, 8),
                          ProgressFrom("c", 90, 101, 88)}),
            "goes back from step 100 to step 90\n");
  EXPECT_EQ(ScreenTextOf({ProgressFrom("b", 0, 100, 800), ProgressFrom("c", 0, 4, 800)}),
            "goes back from step 100 to step 0\n");
  // A restarted shard 0 may first learn the step of the slowest worker. The job has not gone back
  // then.
  EXPECT_EQ(ScreenTextOf({ProgressFrom("b", 50, 100, 800), ProgressFrom("", 0, 0, 0),
                          ProgressFrom("", 50, 97, 776)}),
            "goes on from step 50\n");
}

// The output of a Screen on a terminal of 40 columns.
template <typename Body>
std::string OutputOnTerminal(Body body) {
  int terminal = -1, inside = -1;
  winsize size{};
  size.ws_col = 40;
  size.ws_row = 10;
  if (openpty(&terminal, &inside, nullptr, nullptr, &size) != 0) {
    ADD_FAILURE() << "no terminal";
    return "";
  }
  std::fflush(stdout);
  const int saved = dup(STDOUT_FILENO);
  dup2(inside, STDOUT_FILENO);
  {
    Screen screen;
    body(screen);
  }
  std::fflush(stdout);
  dup2(saved, STDOUT_FILENO);
  for (const int fd : {saved, inside}) close(fd);
  // The output arrives in pieces, then the end, because the other side is closed.
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = read(terminal, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<size_t>(got));
  }
  close(terminal);
  return text;
}

TEST(Screen, RedrawsOneLineOnATerminalAndNeverWraps) {
  const std::string out = OutputOnTerminal([](Screen& screen) {
    screen.Progress(Progress(1), seconds(1));
    screen.Progress(Progress(2), seconds(1) + milliseconds(500));
  });
  EXPECT_EQ(out,
            "\rstep 1/100  loss 0.5000  10 img/s  comm\x1b[K\rstep 2/100  loss 0.5000  10 img/s  "
            "comm\x1b[K\r\n");
}

TEST(Screen, APermanentLineBeginsOnANewLine) {
  const std::string out = OutputOnTerminal([](Screen& screen) {
    screen.Progress(Progress(0, 1), seconds(1));
    screen.PrintLine("worker 1 is here");
  });
  EXPECT_EQ(out, "\rwaiting for the first step  workers 1/2\x1b[K\r\nworker 1 is here\r\n");
}

}  // namespace
}  // namespace tern::tools
