// The output of `tern run`, and of a shard 0 that a user has started, on a terminal.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using testing::HasSubstr;

constexpr int kTerminalColumns = 100;

// A pseudo-terminal to which a program writes.
class PseudoTerminal {
 public:
  PseudoTerminal() {
    winsize window{};
    window.ws_col = kTerminalColumns;
    window.ws_row = 50;
    std::array<char, 256> buffer{};
    if (openpty(&reader_fd_, &writer_fd_, buffer.data(), nullptr, &window) != 0) ADD_FAILURE();
    name_ = buffer.data();
  }
  ~PseudoTerminal() {
    for (const int fd : {reader_fd_, writer_fd_}) close(fd);
  }
  const std::string& name() const { return name_; }
  // From now on it takes no output, as after Ctrl-S.
  void Stop() const { EXPECT_EQ(tcflow(writer_fd_, TCOOFF), 0); }

  // Reads all output until the program has ended, at most for a minute.
  std::string ReadToTheEnd(TestProgram& program) const {
    std::string bytes;
    std::array<char, 4096> piece{};
    const Time deadline = Now() + std::chrono::seconds(60);
    for (bool has_ended = false; !has_ended && Now() < deadline;) {
      has_ended = !program.running();  // checked before reading, so that no output is missed
      pollfd reader_poll{reader_fd_, POLLIN, 0};
      while (poll(&reader_poll, 1, has_ended ? 0 : 20) > 0) {
        const ssize_t read_bytes = read(reader_fd_, piece.data(), piece.size());
        if (read_bytes <= 0) break;
        bytes.append(piece.data(), static_cast<size_t>(read_bytes));
      }
    }
    return bytes;
  }

 private:
  int reader_fd_ = -1, writer_fd_ = -1;
  std::string name_;
};

// The rows that a terminal without a limit of columns shows after these bytes. Knows only the
// control sequences that tern uses.
std::vector<std::string> RowsOf(const std::string& bytes) {
  std::vector<std::string> rows(1);
  size_t column = 0;
  const std::string erase_to_end = "\x1b[K";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\r') {
      column = 0;
    } else if (bytes[i] == '\n') {
      rows.emplace_back();
    } else if (bytes.compare(i, erase_to_end.size(), erase_to_end) == 0) {
      rows.back().resize(column, ' ');
      i += erase_to_end.size() - 1;
    } else {
      if (rows.back().size() <= column) rows.back().resize(column + 1, ' ');
      rows.back()[column++] = bytes[i];
    }
  }
  return rows;
}

TEST(Terminal, TheClosingTableBeginsOnANewLineAndIsTheLastOutput) {
  TestJob job({.steps = 60});
  const PseudoTerminal terminal;
  tools::ProcessSpec spec;
  spec.name = "tern";
  spec.program = TestJob::BinaryPath("tern");
  spec.arguments = {"run", job.job_file()};
  spec.environment = {"OMP_WAIT_POLICY=passive", "TERM=xterm"};
  spec.stdout_path = terminal.name();
  spec.stderr_path = job.folder() + "/tern.err";
  TestProgram tern(spec);
  ASSERT_TRUE(tern.started());
  const std::string bytes = terminal.ReadToTheEnd(tern);
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  const std::vector<std::string> rows = RowsOf(bytes);

  size_t table_row = 0;
  while (table_row < rows.size() && rows[table_row].find("  job   ") == std::string::npos)
    ++table_row;
  ASSERT_LT(table_row, rows.size()) << bytes;
  EXPECT_TRUE(rows[table_row].starts_with("  job   ")) << "'" << rows[table_row] << "'";
  ASSERT_GT(table_row, 0u);
  EXPECT_TRUE(rows[table_row - 1].starts_with("step ") ||
              rows[table_row - 1].starts_with("waiting"))
      << "the progress stays above the table: '" << rows[table_row - 1] << "'";
  ASSERT_GE(rows.size(), 6u);
  EXPECT_EQ(rows.back(), "") << "it ends with the end of a line";
  EXPECT_THAT(rows[rows.size() - 6], HasSubstr("summary.json"));
  EXPECT_EQ(rows[rows.size() - 5], "what next:");
  EXPECT_THAT(rows[rows.size() - 4], HasSubstr("  evaluate the weights:       tern_worker --job "));
  EXPECT_THAT(rows[rows.size() - 3], HasSubstr("  name the class of an image: tern classify "));
  for (size_t row = 0; row + 1 < rows.size(); ++row)
    EXPECT_NE(rows[row], "") << "row " << row << " is empty:\n" << bytes;
}

TEST(Terminal, ShardZeroStartedByHandShowsTheProgressInPlaceAndTheClosingTable) {
  TestJob job({.steps = 60});
  const PseudoTerminal terminal;
  tools::ProcessSpec spec;
  spec.name = "server 0";
  spec.program = TestJob::BinaryPath("tern_server");
  spec.arguments = {"--job", job.job_file(), "--rank", "0", "--set", "train.compute=wait"};
  spec.environment = {"TERM=xterm"};
  spec.stdout_path = job.folder() + "/server.out";
  spec.stderr_path = terminal.name();
  TestProgram server(spec);
  ASSERT_TRUE(server.started());
  for (uint32_t rank = 0; rank < 2; ++rank) job.StartWorker(rank, {"--set", "train.compute=wait"});
  const std::string bytes = terminal.ReadToTheEnd(server);
  EXPECT_EQ(server.Wait(), 0) << bytes;
  EXPECT_THAT(bytes, HasSubstr("\rwaiting for the first step  workers "));
  const std::vector<std::string> rows = RowsOf(bytes);
  const auto is_table = [](const std::string& row) { return row.starts_with("  job   "); };
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), is_table), 1) << bytes;
  const auto is_log_line = [](const std::string& row) {
    return row.find("all 2 workers are here") != std::string::npos;
  };
  const auto log_row = std::find_if(rows.begin(), rows.end(), is_log_line);
  ASSERT_NE(log_row, rows.end()) << bytes;
  EXPECT_TRUE(log_row->starts_with("I")) << "it begins on a new line: " << *log_row;
}

// Both log a warning when they start, and shard 0 prints a table at the end.
TEST(Terminal, AStoppedTerminalHoldsUpNeitherAServerNorAWorker) {
  TestJob job({.steps = 60, .yaml = "security: none\n"});
  const PseudoTerminal terminal;
  terminal.Stop();
  const auto spec_of = [&](const std::string& role) {
    tools::ProcessSpec spec;
    spec.name = role + " 0";
    spec.program = TestJob::BinaryPath("tern_" + role);
    spec.arguments = {"--job", job.job_file(), "--rank", "0"};
    spec.environment = {"TERM=xterm"};
    spec.stdout_path = job.folder() + "/" + role + ".out";
    spec.stderr_path = terminal.name();
    return spec;
  };
  TestProgram server(spec_of("server"));
  TestProgram worker(spec_of("worker"));
  EXPECT_EQ(job.StartWorker(1).Wait(), 0);
  EXPECT_EQ(worker.Wait(), 0);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(job.Log("server", 0), HasSubstr("security: none"));
}

// A `tern run` whose stdout is a pipe that takes nothing.
class UnreadRun {
 public:
  explicit UnreadRun(const TestJob& job) {
    if (pipe2(pipe_fds_.data(), O_CLOEXEC) != 0) ADD_FAILURE();
    fcntl(pipe_fds_[1], F_SETFL, O_NONBLOCK);
    while (write(pipe_fds_[1], "x", 1) == 1) continue;
    fcntl(pipe_fds_[1], F_SETFL, 0);
    tools::ProcessSpec spec;
    spec.name = "tern";
    spec.program = TestJob::BinaryPath("tern");
    spec.arguments = {"run", job.job_file()};
    spec.environment = {"OMP_WAIT_POLICY=passive"};
    spec.stdout_fd = pipe_fds_[1];
    spec.stderr_path = job.folder() + "/tern.err";
    tern_.emplace(spec);
    close(pipe_fds_[1]);
  }
  ~UnreadRun() { close(pipe_fds_[0]); }
  TestProgram& tern() { return *tern_; }
  std::string ReadToTheEnd() const {
    std::string text;
    std::array<char, 65536> piece{};
    for (ssize_t size = 0; (size = read(pipe_fds_[0], piece.data(), piece.size())) > 0;)
      text.append(piece.data(), static_cast<size_t>(size));
    return text;
  }

 private:
  std::array<int, 2> pipe_fds_{};
  std::optional<TestProgram> tern_;
};

TEST(Terminal, ARunDoesItsJobAlthoughNobodyReadsItsOutputYet) {
  const TestJob job({.steps = 60});
  UnreadRun run(job);
  ASSERT_TRUE(WaitUntil([&] { return !job.OutputBytes("summary.json").empty(); }));
  EXPECT_TRUE(run.tern().running()) << "it waits for the reader of its table";
  const std::string text = run.ReadToTheEnd();
  EXPECT_EQ(run.tern().Wait(), 0) << run.tern().err();
  EXPECT_THAT(text, HasSubstr("xserver 0 is process "));
  EXPECT_THAT(text, HasSubstr("worker 1 is process "));
  EXPECT_THAT(text, HasSubstr("what next:"));
}

TEST(Terminal, ARunWhoseOutputNobodyReadsCanBeEnded) {
  const TestJob job({.steps = 60});
  UnreadRun run(job);
  ASSERT_TRUE(WaitUntil([&] { return !job.OutputBytes("summary.json").empty(); }));
  // The first signals may come before `tern run` waits.
  ASSERT_TRUE(WaitUntil([&] {
    run.tern().Signal(SIGTERM);
    return !run.tern().running();
  }));
}

}  // namespace
}  // namespace tern::e2e
