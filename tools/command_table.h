// The subcommands of `tern`. A new one needs its definition and its function in the table of
// command_table.cc: --help, man page and completion follow from it.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "setup/arguments.h"
#include "setup/command_def.h"

namespace tern::tools {

struct Command {
  setup::CommandDef def;
  Status (*run)(const setup::Arguments& arguments);
  const char* former_name = "";  // The command's name of old, with "tern"; "": none.
  bool is_hidden = false;        // Not for users: no help lists it.

  // The words after "tern": "run", "keys make".
  std::string words() const { return std::string(def.name).substr(sizeof "tern"); }
};

// The definitions of launch_commands.cc.
Command LaunchCommand();
Command MemberCommand();
Command LaunchHostCommand();

// In the order in which help lists them.
const std::vector<Command>& Commands();
// The command with this def.name. REQUIRES that there is one.
const Command& CommandCalled(const std::string& name);

// Runs the command line of `tern`: `args` are the words after it; --version prints `version_text`.
// Errors in the use of commands are kUsage; other errors are those of the commands.
Status RunCommandLine(const std::vector<std::string>& args, const std::string& version_text);

}  // namespace tern::tools
