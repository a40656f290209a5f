// The man pages of the commands (chapter 1 of the manual) and of job files (chapter 5).
#pragma once

#include <string>
#include <vector>

#include "setup/command_def.h"

namespace tern::tools {

// The name of a command's page: "tern-keys-make" for "tern keys make".
std::string PageName(const std::string& command);
// The page of a command.
std::string ManPage(const setup::CommandDef& command, const std::string& version);
// The page of the program `tern`, which lists `commands`.
std::string OverviewPage(const std::vector<const setup::CommandDef*>& commands,
                         const std::string& version);
// The page of job files, from the text of configs/reference.yaml.
std::string JobPage(const std::string& reference, const std::string& version);

}  // namespace tern::tools
