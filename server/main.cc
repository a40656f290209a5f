// The program tern_server: one shard of the parameter server.
#include <malloc.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "common/base/folder_lock.h"
#include "common/base/logging.h"
#include "common/base/machine_limits.h"
#include "common/base/signals.h"
#include "server/server.h"
#include "server/tensor_wait.h"
#include "setup/command_line.h"
#include "setup/first_weights.h"
#include "setup/security.h"
#include "setup/version.h"

namespace {

tern::Status RunServer(int argc, char** argv) {
  tern::Result<tern::setup::CommandLine> command_line = tern::setup::ParseCommandLine(
      argc, argv, "server", tern::setup::VersionText("tern_server", tern::setup::GitCommit(), {}));
  if (!command_line.ok()) return command_line.status();
  tern::StopSignals signals;
  std::optional<tern::FolderLock> lock;  // Held until the process ends.
  const auto lock_output_folder = [&](const tern::pb::Job& job) {
    if (command_line->rank != 0) return tern::Ok();
    auto folder_lock =
        tern::FolderLock::TryLock(job.output_dir(), tern::setup::kServerLock, job.name());
    if (!folder_lock.ok()) return folder_lock.status();
    lock.emplace(std::move(*folder_lock));
    return tern::Ok();
  };
  auto setup = tern::setup::StartDaemon(*command_line, "server", lock_output_folder);
  if (!setup.ok()) return setup.status();
  (*setup)->commit = tern::setup::GitCommit();
  if (lock.has_value() && !lock->is_held()) LOG(WARNING) << lock->warning();
  if (command_line->check_only) {
    std::printf("%s", tern::config::ToYaml((*setup)->job).c_str());
    return tern::Ok();
  }
  tern::server::Server::Options options{command_line->rank, command_line->progress_fd, {}};
  if (const auto& security = (*setup)->security; security != nullptr) {
    options.read_allow_list = [&job = (*setup)->job, self = security->self] {
      return tern::setup::LoadAllowList(job, self);
    };
  }
  if (tern::setup::HasForeignTable((*setup)->job)) {
    const auto tensors =
        tern::server::AwaitTensors(**setup, command_line->rank, tern::MemoryRoom(), signals);
    if (!tensors.ok()) return tensors.status();
    TERN_RETURN_IF_ERROR(tern::setup::SetTensors(*tensors, setup->get()));
    TERN_RETURN_IF_ERROR(tern::setup::ReadGivenWeights(setup->get()));
    if (!(*setup)->plan.is_central) (*setup)->given_weights.reset();
  }
  auto server = tern::server::Server::Make(**setup, signals, options);
  if (!server.ok()) return server.status();
  return (*server)->Run();
}

}  // namespace

int main(int argc, char** argv) {
  tern::StopSignals::KeepUserSignals();
  // Every push allocates and frees large arrays. malloc must not return them to the system each
  // time, because the page faults would cost as much as the arithmetic.
  mallopt(M_MMAP_THRESHOLD, 1 << 28);
  mallopt(M_TRIM_THRESHOLD, 1 << 28);
  return tern::setup::ReportExit(
      "tern_server", tern::setup::RunWithinMemory([=] { return RunServer(argc, argv); }));
}
