#include "setup/screen.h"

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

namespace tern::setup {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

std::string ProgressAt(int round, int workers_present = 2) {
  return Cat(R"({"event":"progress","rounds":)", round, R"(,"steps":100,"samples":)", 10 * round,
             R"(,"train_s":)", round, R"(,"workers":2,"samples_per_s":10,"present":)",
             workers_present, R"(,"loss":0.5})");
}

// A progress line of a job that resumed from step `from_step`; `beginning` identifies the start of
// the job or its latest return to a checkpoint.
std::string ResumedProgressLine(const std::string& beginning, int from_step, int round,
                                int samples) {
  return Cat(R"({"event":"progress","rounds":)", round, R"(,"steps":250,"samples":)", samples,
             R"(,"beginning":")", beginning, R"(","from_step":)", from_step, "}");
}

int LineCountOf(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

TEST(Screen, PrintsALineEveryFiveSecondsWithoutATerminal) {
  testing::internal::CaptureStdout();
  {
    TerminalLine line(STDOUT_FILENO);
    Screen screen(line);
    screen.ShowProgress(ProgressAt(0), seconds(1));
    for (int half_second = 0; half_second < 24; ++half_second)
      screen.ShowProgress(ProgressAt(1 + half_second),
                          seconds(2) + half_second * milliseconds(500));
  }
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(LineCountOf(out), 3) << out;
  EXPECT_THAT(out, testing::AllOf(HasSubstr("step 1/100"), HasSubstr("step 11/100"),
                                  HasSubstr("step 21/100"), Not(HasSubstr("\r"))));
}

TEST(Screen, AnnouncesOnceThatACheckpointCouldNotBeWritten) {
  testing::internal::CaptureStdout();
  {
    TerminalLine line(STDOUT_FILENO);
    Screen screen(line);
    for (int round = 1; round < 4; ++round) {
      std::string line = ProgressAt(round);
      line.pop_back();
      line += Cat(R"(,"failed_checkpoints":)", round - 1, "}");
      screen.ShowProgress(line, seconds(round));
    }
  }
  const std::string out = testing::internal::GetCapturedStdout();
  const size_t first = out.find("a checkpoint could not be written");
  ASSERT_NE(first, std::string::npos) << out;
  EXPECT_EQ(out.find("a checkpoint could not be written", first + 1), std::string::npos) << out;
}

TEST(Screen, AnnouncesFailedCheckpointsOfAJobThatEndsBeforeItReportsProgress) {
  testing::internal::CaptureStdout();
  {
    TerminalLine line(STDOUT_FILENO);
    Screen screen(line);
    ProgressUpdate end;
    end.has_ended = true;
    end.failed_checkpoints = 2;
    screen.Announce(end);
  }
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              HasSubstr("a checkpoint could not be written"));
}

TEST(Screen, IgnoresOtherLines) {
  testing::internal::CaptureStdout();
  {
    TerminalLine line(STDOUT_FILENO);
    Screen screen(line);
    screen.ShowProgress("", seconds(1));
    screen.ShowProgress("{\"event\":", seconds(9));
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

std::string ResumeLinesOf(const std::vector<std::string>& progress_lines,
                          const std::string& changes = "") {
  testing::internal::CaptureStdout();
  {
    TerminalLine line(STDOUT_FILENO);
    Screen screen(line);
    screen.SetChanges(changes);
    for (const std::string& progress_line : progress_lines)
      screen.ShowProgress(progress_line, seconds(1));
  }
  std::string resume_lines;
  std::istringstream lines(testing::internal::GetCapturedStdout());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("goes ") || line.starts_with("nothing ")) resume_lines += line + "\n";
  }
  return resume_lines;
}

TEST(Screen, AnnouncesAResumeOnce) {
  EXPECT_EQ(
      ResumeLinesOf({ResumedProgressLine("", 0, 0, 0), ResumedProgressLine("b", 0, 0, 0),
                     ResumedProgressLine("b", 150, 150, 0), ResumedProgressLine("b", 150, 160, 80),
                     ResumedProgressLine("b", 150, 170, 160)}),
      "goes on from step 150\n");
  EXPECT_EQ(ResumeLinesOf({ResumedProgressLine("b", 150, 153, 24)}), "goes on from step 150\n");
  EXPECT_EQ(ResumeLinesOf({ResumedProgressLine("b", 0, 0, 0), ResumedProgressLine("b", 0, 5, 40)}),
            "");
}

TEST(Screen, NamesChangedKeysAtTheFirstResumeOnly) {
  EXPECT_EQ(ResumeLinesOf(
                {ResumedProgressLine("b", 150, 153, 24), ResumedProgressLine("b", 150, 200, 400),
                 ResumedProgressLine("c", 160, 161, 408)},
                "seed was 1, is now 2"),
            "goes on from step 150 with other settings: seed was 1, is now 2\n"
            "goes back from step 200 to step 160\n");
}

TEST(Screen, SaysThatThereIsNothingToTrain) {
  EXPECT_EQ(ResumeLinesOf({ResumedProgressLine("b", 250, 250, 0)}, "seed was 1, is now 2"),
            "goes on from step 250 with other settings: seed was 1, is now 2\n"
            "nothing to train: the job has 250 steps, and they are done; its weights are "
            "evaluated and written again\n");
}

TEST(Screen, AnnouncesThatAJobGoesBack) {
  EXPECT_EQ(
      ResumeLinesOf({ResumedProgressLine("b", 0, 100, 800), ResumedProgressLine("c", 0, 100, 800),
                     ResumedProgressLine("c", 90, 100, 0), ResumedProgressLine("c", 90, 91, 8),
                     ResumedProgressLine("c", 90, 101, 88)}),
      "goes back from step 100 to step 90\n");
  EXPECT_EQ(
      ResumeLinesOf({ResumedProgressLine("b", 0, 100, 800), ResumedProgressLine("c", 0, 4, 800)}),
      "goes back from step 100 to step 0\n");
  // After server 0 has restarted, its first progress line may have a smaller step (97) than its
  // last line before (100). The job has not gone back: it still runs from step 50.
  EXPECT_EQ(ResumeLinesOf({ResumedProgressLine("b", 50, 100, 800), ResumedProgressLine("", 0, 0, 0),
                           ResumedProgressLine("", 50, 97, 776)}),
            "goes on from step 50\n");
}

// The output of a Screen on a terminal of 40 columns.
template <typename UseScreen>
std::string OutputOnTerminal(UseScreen use_screen, const char* terminal = "xterm") {
  setenv("TERM", terminal, 1);
  int reader_fd = -1, writer_fd = -1;
  winsize window{};
  window.ws_col = 40;
  window.ws_row = 10;
  if (openpty(&reader_fd, &writer_fd, nullptr, nullptr, &window) != 0) {
    ADD_FAILURE() << "no terminal";
    return "";
  }
  std::fflush(stdout);
  const int saved_stdout = dup(STDOUT_FILENO);
  dup2(writer_fd, STDOUT_FILENO);
  {
    TerminalLine line(STDOUT_FILENO);
    Screen screen(line);
    use_screen(screen);
  }
  std::fflush(stdout);
  dup2(saved_stdout, STDOUT_FILENO);
  for (const int fd : {saved_stdout, writer_fd}) close(fd);
  // Reads the output piece by piece. At its end read() fails, because the writing end is closed.
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t read_bytes = 0; (read_bytes = read(reader_fd, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<size_t>(read_bytes));
  }
  close(reader_fd);
  return text;
}

TEST(Screen, RedrawsOneLineOnATerminalAndNeverWraps) {
  const std::string out = OutputOnTerminal([](Screen& screen) {
    screen.ShowProgress(ProgressAt(1), seconds(1));
    screen.ShowProgress(ProgressAt(2), seconds(1) + milliseconds(500));
  });
  EXPECT_EQ(
      out,
      "\rstep 1/100  loss 0.5000  10 img/s\x1b[K\rstep 2/100  loss 0.5000  10 img/s\x1b[K\r\n");
}

TEST(Screen, ADumbTerminalGetsLinesWithoutControlSequences) {
  const std::string out = OutputOnTerminal(
      [](Screen& screen) {
        screen.ShowProgress(ProgressAt(1), seconds(1));
        screen.ShowProgress(ProgressAt(2), seconds(2));
        screen.ShowProgress(ProgressAt(6), seconds(6));
      },
      "dumb");
  EXPECT_THAT(
      out, testing::AllOf(HasSubstr("step 1/100"), Not(HasSubstr("step 2/100")),
                          HasSubstr("step 6/100"), Not(HasSubstr("\x1b")), Not(HasSubstr("\r\r"))));
}

// While nothing changes, the same line would fill the file to which the output goes.
TEST(Screen, RepeatsALineWithoutATerminalOnlyOnceAMinute) {
  testing::internal::CaptureStdout();
  {
    TerminalLine line(STDOUT_FILENO);
    Screen screen(line);
    for (int second = 0; second <= 90; ++second)
      screen.ShowProgress(ProgressAt(5), seconds(second));
  }
  EXPECT_EQ(LineCountOf(testing::internal::GetCapturedStdout()), 2);
}

TEST(Screen, ShowsHowFarAnEvaluationIs) {
  std::string progress = ProgressAt(50);
  progress.pop_back();
  EXPECT_THAT(OutputOnTerminal([&](Screen& screen) {
                screen.ShowProgress(progress + R"(,"evaluated":4000,"to_evaluate":10000})",
                                    seconds(1));
              }),
              HasSubstr("step 50/100  evaluating 4,000 of 10,000"));
  EXPECT_THAT(OutputOnTerminal([&](Screen& screen) {
                screen.ShowProgress(progress + R"(,"evaluated":10000,"to_evaluate":10000})",
                                    seconds(1));
              }),
              Not(HasSubstr("evaluating")));
}

TEST(Screen, APermanentLineBeginsOnANewLine) {
  const std::string out = OutputOnTerminal([](Screen& screen) {
    screen.ShowProgress(ProgressAt(0, 1), seconds(1));
    screen.PrintLine("worker 1 is here");
  });
  EXPECT_EQ(out, "\rwaiting for the first step  workers 1/2\x1b[K\r\nworker 1 is here\r\n");
}

}  // namespace
}  // namespace tern::setup
