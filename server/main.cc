// tern_server: one shard of the parameter server.
#include <cstdio>

#include "common/base/signals.h"
#include "common/setup/command_line.h"
#include "server/server.h"

namespace {

tern::Status RunServer(int argc, char** argv) {
  tern::Result<tern::setup::CommandLine> line = tern::setup::ParseCommandLine(argc, argv, "server");
  if (!line.ok()) return line.status();
  tern::StopSignals signals;
  auto setup = tern::setup::Begin(*line, "server");
  if (!setup.ok()) return setup.status();
  if (line->check) {
    std::printf("%s", tern::config::ToYaml((*setup)->job).c_str());
    return tern::Ok();
  }
  auto server = tern::server::Server::Make(**setup, signals, {line->rank, line->progress_fd});
  if (!server.ok()) return server.status();
  return (*server)->Run();
}

}  // namespace

int main(int argc, char** argv) {
  return tern::setup::Finish("tern_server", RunServer(argc, argv));
}
