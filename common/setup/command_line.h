// The command line that both daemons share:
//   --job FILE --rank N [--set KEY=VALUE]... [--check] [--log_dir DIR] [--version] [--help]
// and of a worker: --evaluate FILE, which needs no rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/setup/setup.h"

namespace tern::setup {

struct CommandLine {
  std::string job;
  uint32_t rank = 0;
  std::vector<std::string> overrides;
  bool check = false;
  std::string evaluate;  // weights to evaluate instead of training; empty: train
  std::string log_dir;   // default: output_dir/logs
  int progress_fd = -1;  // a descriptor for progress as JSON lines, for `tern run`
};

// `role` is "server" or "worker". Prints help or the version and exits 0 when asked to; kUsage for
// anything it does not know, with what it knows. The flags live in gflags, so glog's own count,
// too: --v, --vmodule.
Result<CommandLine> ParseCommandLine(int argc, char** argv, const std::string& role);

// Reads the job that the command line names and checks the rank against it; opens the log and says
// in it what the job resolved to, and, with `security: none`, that nobody checks who the peers are.
// From here on a reader that goes away (of progress, of metrics) and a file that grows beyond
// `ulimit -f` are errors of that write, not the end of the process (SIGPIPE, SIGXFSZ).
Result<std::unique_ptr<Setup>> Begin(const CommandLine& line, const std::string& role);

// Writes a daemon's last line, its figures, over the file at `path`, atomically; makes the folder.
// kCannotWrite, which the log says too.
Status WriteSummaryFile(const std::string& path, const std::string& line);
// How a process ends that wrote them: as it would without, but where all was in order and they are
// not there, with `written`.
Status EndOfProcess(const Status& status, const Status& written);

// Ends a program: one sentence on stderr and in the log if `status` is not ok. Returns the exit
// code.
int Finish(const std::string& program, const Status& status);

}  // namespace tern::setup
