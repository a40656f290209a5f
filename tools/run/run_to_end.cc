#include "tools/run/run_to_end.h"

#include <poll.h>

#include <array>
#include <optional>

#include "setup/environment.h"

namespace tern::tools {

Result<Exit> RunToEnd(const std::string& job_file, const std::string& folder,
                      StopSignals* stop_signals) {
  const Result<std::string> program = FindProgram("tern");
  if (!program.ok()) return program.status();
  ProcessSpec spec;
  spec.name = "tern run " + job_file;
  spec.program = *program;
  spec.takes_user_signals = true;
  // Nobody joins such a run from elsewhere, and several sweeps may run at once.
  spec.arguments = {"run", job_file, "--free_ports"};
  spec.set_environment = setup::WithoutPlace();  // Else it would win over the job file.
  spec.stdout_path = folder + "/run.stdout";
  spec.stderr_path = folder + "/run.stderr";
  const auto process = Process::Start(spec);
  if (!process.ok()) return process.status();
  while (true) {
    if (const std::optional<Exit> exit = (*process)->TryWait(); exit.has_value()) return *exit;
    std::array<pollfd, 2> fds = {pollfd{(*process)->event_fd(), POLLIN, 0},
                                 pollfd{stop_signals->fd(), POLLIN, 0}};
    poll(fds.data(), fds.size(), -1);
    if (const int signal = stop_signals->TakeSignal(); signal != 0) (*process)->Signal(signal);
  }
}

}  // namespace tern::tools
