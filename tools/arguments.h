// The arguments of a subcommand: flags, some of them with values, and positional arguments.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

struct Flag {
  std::string name;  // Without the leading dashes.
  // True: the flag is given as "--name VALUE" or "--name=VALUE". False: as "--name" alone.
  bool takes_value = true;
};

class Arguments {
 public:
  // Parses `args`. On an invalid argument it returns kUsage; the message names the fault and the
  // known flags, and ends with `usage`.
  static Result<Arguments> Parse(const std::vector<std::string>& args,
                                 const std::vector<Flag>& flags, const std::string& usage);

  bool HasFlag(const std::string& flag) const { return values_of_flags_.contains(flag); }
  // Returns all values that were given for a flag, in their order; empty if there are none.
  std::vector<std::string> AllValues(const std::string& flag) const;
  // Returns the last value that was given for a flag, or `default_value` if the flag is absent.
  std::string LastValue(const std::string& flag, const std::string& default_value) const;
  // Returns the last value of a flag as a number, or `default_value` if the flag is absent. Returns
  // kUsage if the value is not a whole number from 0 to `max`.
  Result<uint32_t> NumberValue(const std::string& flag, uint32_t default_value, uint32_t max) const;
  // The arguments that are neither flags nor values of flags. After "--" every argument is
  // positional.
  const std::vector<std::string>& positional() const { return positional_; }

 private:
  std::map<std::string, std::vector<std::string>> values_of_flags_;  // By the name of the flag.
  std::vector<std::string> positional_;
};

}  // namespace tern::tools
