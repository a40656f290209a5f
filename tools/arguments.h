// The arguments of a subcommand: flags, some of them with values, and positional arguments.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

struct Flag {
  std::string name;         // without dashes
  bool takes_value = true;  // "--name VALUE" or "--name=VALUE"; else "--name" alone
};

class Arguments {
 public:
  // kUsage, with the invalid argument, the known flags and `usage`.
  static Result<Arguments> Parse(const std::vector<std::string>& args,
                                 const std::vector<Flag>& flags, const std::string& usage);

  bool Has(const std::string& flag) const { return values_.contains(flag); }
  // All values of a flag, in order.
  std::vector<std::string> All(const std::string& flag) const;
  // The last value, or `otherwise`.
  std::string Last(const std::string& flag, const std::string& otherwise) const;
  // The last value as a number from 0 to `max`; kUsage if it is not one.
  Result<uint32_t> Number(const std::string& flag, uint32_t otherwise, uint32_t max) const;
  // The arguments that are not flags. After "--" every argument is positional.
  const std::vector<std::string>& positional() const { return positional_; }

 private:
  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> positional_;
};

}  // namespace tern::tools
