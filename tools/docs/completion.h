// Completion of command lines by bash and zsh.
#pragma once

#include <string>
#include <vector>

#include "setup/command_def.h"

namespace tern::tools {

// `commands` are all commands of `program`: those with further words, or one that is the program.
// The bash script completes commands, flags, words of "a|b" values, and else names of files.
std::string BashCompletion(const std::string& program,
                           const std::vector<const setup::CommandDef*>& commands);
// The same for zsh, with the helps of flags: the text of a file _PROGRAM in its fpath.
std::string ZshCompletion(const std::string& program,
                          const std::vector<const setup::CommandDef*>& commands);

}  // namespace tern::tools
