// The arguments of a command: flags, some of them with values, and positional arguments.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "setup/command_def.h"

namespace tern::setup {

class Arguments {
 public:
  // Parses `args`, the words behind the command's name. A value is given as "--name VALUE" or
  // "--name=VALUE"; after "--" every argument is positional, or belongs to the command's program.
  // kUsage if a flag is unknown, a value
  // or a positional argument is missing, or one is too many; the sentence says what the user
  // probably meant.
  static Result<Arguments> Parse(const CommandDef& command, const std::vector<std::string>& args);

  // The text of --help if that flag was given, else empty. With --help nothing else is checked.
  const std::string& help_text() const { return help_text_; }

  bool HasFlag(const std::string& flag) const { return values_of_flags_.contains(flag); }
  // All values that were given for a flag, in their order; empty if there are none.
  std::vector<std::string> AllValues(const std::string& flag) const;
  // The last value that was given for a flag, or the default of its definition.
  std::string LastValue(const std::string& flag) const;
  // LastValue as a number. kUsage if it is not a whole number from 0 to `max`.
  Result<uint32_t> NumberValue(const std::string& flag, uint32_t max) const;
  // LastValue as a number with a fraction. kUsage if it is not above 0 and at most `max`.
  Result<double> PositiveValue(const std::string& flag, double max) const;
  // The arguments that are neither flags nor values of flags: as many as the command has, optional
  // ones perhaps left out.
  const std::vector<std::string>& positional() const { return positional_; }
  // What stands after "--" if the command has a program: that and its arguments. Empty only if the
  // program is optional.
  const std::vector<std::string>& program() const { return program_; }

 private:
  std::map<std::string, std::vector<std::string>> values_of_flags_;  // By the name of the flag.
  std::map<std::string, std::string> defaults_;                      // By the name of the flag.
  std::vector<std::string> positional_, program_;
  std::string help_text_;
};

// An error in the use of `command`: the sentence, and where its usage is explained.
Status UsageError(const CommandDef& command, const std::string& sentence);

}  // namespace tern::setup
