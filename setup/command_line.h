// The command line that both daemons share:
//
//   --job FILE --rank N [--set KEY=VALUE]... [--check] [--log_dir DIR] [--version] [--help]
//
// A worker also has --evaluate FILE, which needs no rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::setup {

struct CommandLine {
  std::string job;
  uint32_t rank = 0;
  std::vector<std::string> overrides;
  bool check = false;
  std::string evaluate;  // weights to evaluate instead of training; empty: train
  std::string log_dir;   // default: output_dir/logs
  int progress_fd = -1;  // where to write progress as JSON lines, for `tern run`
};

// `role` is "server" or "worker". Prints help or the version and exits 0 if asked to; kUsage, with
// the known flags, for an unknown one. The flags are defined with gflags, so glog's own work, too:
// --v, --vmodule.
Result<CommandLine> ParseCommandLine(int argc, char** argv, const std::string& role);

// Reads the job of the command line and checks the rank against it; calls `before_writing`, if
// set, and returns its error; opens the log and writes the resolved job to it, and, with `security:
// none`, a warning that peers are not authenticated. From here on a reader that goes away (of
// progress, of metrics) and a file that grows beyond `ulimit -f` fail that write instead of ending
// the process (SIGPIPE, SIGXFSZ).
Result<std::unique_ptr<Setup>> Begin(
    const CommandLine& line, const std::string& role,
    const std::function<Status(const pb::Job&)>& before_writing = {});

// Writes a daemon's last line, its figures, to the file at `path`, atomically; creates the folder.
// kCannotWrite, which the log gets, too.
Status WriteSummaryFile(const std::string& path, const std::string& line);
// The status that a process ends with after it wrote its figures with the result `written`:
// `status`, or `written` if only that failed.
Status EndOfProcess(const Status& status, const Status& written);

// Ends a program: writes one sentence to stderr and the log if `status` is not ok. Returns the exit
// code.
int Finish(const std::string& program, const Status& status);

}  // namespace tern::setup
