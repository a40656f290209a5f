// The program tern_worker: one worker of a training job. With --evaluate it only evaluates given
// weights; with --check it only prints the job as this worker sees it.
#include <cstdio>

#include "common/base/signals.h"
#include "setup/command_line.h"
#include "setup/version.h"
#include "worker/engine/libraries.h"
#include "worker/evaluate_alone.h"
#include "worker/worker.h"

namespace {

tern::Status RunWorker(int argc, char** argv) {
  tern::Result<tern::setup::CommandLine> command_line = tern::setup::ParseCommandLine(
      argc, argv, "worker",
      tern::setup::VersionText("tern_worker", tern::setup::GitCommit(),
                               tern::engine::ComputeLibraries()));
  if (!command_line.ok()) return command_line.status();
  if (!command_line->weights_path.empty() && !command_line->check_only) {
    auto setup = tern::setup::StartDaemon(*command_line, "worker");
    if (!setup.ok()) return setup.status();
    return tern::worker::EvaluateAlone(**setup, command_line->rank, command_line->weights_path);
  }
  tern::StopSignals signals;
  auto setup = tern::setup::StartDaemon(*command_line, "worker");
  if (!setup.ok()) return setup.status();
  (*setup)->commit = tern::setup::GitCommit();
  if (command_line->check_only) {
    std::printf(
        "%s",
        tern::config::ToYaml(tern::config::JobForRank((*setup)->job, command_line->rank)).c_str());
    return tern::Ok();
  }
  auto worker = tern::worker::Worker::Make(**setup, signals, command_line->rank);
  if (!worker.ok()) return worker.status();
  return (*worker)->Run();
}

}  // namespace

int main(int argc, char** argv) {
  tern::StopSignals::KeepUserSignals();
  return tern::setup::ReportExit(
      "tern_worker", tern::setup::RunWithinMemory([=] { return RunWorker(argc, argv); }));
}
