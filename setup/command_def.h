// What a command line may have, as data. Parsing (arguments.h), --help, the man pages and the
// completion of shells (tools/docs) all come from these definitions.
#pragma once

#include <string>
#include <vector>

namespace tern::setup {

struct FlagDef {
  const char* name;  // Without the leading dashes.
  // What stands for the value: KEY=VALUE, N, FILE, DIR, or the allowed words as "a|b". Shells
  // complete names of files for FILE and JOB, of folders for DIR. "": the flag takes no value.
  const char* value_name;
  // The value without the flag. "": none, or one that is not the same in every call; `help` then
  // says which.
  const char* default_value;
  const char* help;  // Sentences; with the unit, if the value has one.
  // One letter, by which the flag is given with one dash, too; "": none.
  const char* letter = "";
};

struct PositionalDef {
  const char* name;  // In capitals; shells complete as for FlagDef::value_name.
  const char* help;
  bool is_optional = false;
  bool is_repeated = false;  // One or more; only of a command's last positional.
};

struct CommandDef {
  const char* name;         // As typed: "tern run", "tern_server".
  const char* summary;      // One line that begins with a verb, without a full stop.
  const char* description;  // Sentences.
  std::vector<PositionalDef> positionals;
  std::vector<FlagDef> flags;  // Besides --help, which all have.
  // What stands after "--": a program and its arguments, which are taken as they are; null: the
  // command takes none. It may be optional.
  const PositionalDef* program = nullptr;
};

// The text of --help for FlagDef `flag`: its help with its default.
inline std::string FlagHelp(const FlagDef& flag) {
  return *flag.default_value == 0
             ? flag.help
             : std::string(flag.help) + " Default: " + flag.default_value + ".";
}

constexpr FlagDef kHelpFlag = {"help", "", "", "Print this help and exit.", "h"};
constexpr FlagDef kVersionFlag = {"version", "", "",
                                  "Print the version, the commit and the libraries, and exit."};
constexpr FlagDef kSetFlag = {
    "set", "KEY=VALUE", "",
    "Replace a key of the job file, such as train.batch_total=128; null removes the key. May be "
    "repeated; the last value of a key wins."};

}  // namespace tern::setup
