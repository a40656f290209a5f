// tern: the command-line tool. tools/command_table.cc lists its commands.
#include <signal.h>

#include <cstdio>
#include <string>
#include <vector>

#include "common/base/terminal_line.h"
#include "setup/command_line.h"
#include "setup/version.h"
#include "tools/command_table.h"
#include "worker/engine/libraries.h"

int main(int argc, char** argv) {
  // A write beyond the limit of `ulimit -f` fails with an error instead of ending the program.
  signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  const tern::Status run_status = tern::tools::RunCommandLine(
      args,
      tern::setup::VersionText("tern", tern::setup::GitCommit(), tern::engine::ComputeLibraries()));
  const tern::Status status = tern::setup::FinalStatus(run_status, tern::setup::FlushStdout());
  tern::StderrLine().Drain(tern::TerminalLine::kForever);
  if (!status.ok()) std::fprintf(stderr, "tern: %s\n", status.message().c_str());
  return tern::ExitCode(status);
}
