// The arguments of a subcommand: flags, some with values, and other words.
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
  // kUsage names the word at fault, the known flags and `usage`.
  static Result<Arguments> Parse(const std::vector<std::string>& words,
                                 const std::vector<Flag>& flags, const std::string& usage);

  bool Has(const std::string& flag) const { return values_.contains(flag); }
  // All values of a flag, in order.
  std::vector<std::string> All(const std::string& flag) const;
  // The last value, or `otherwise`.
  std::string Last(const std::string& flag, const std::string& otherwise) const;
  // The last value as a number from 0 to `max`; kUsage if it is not one.
  Result<uint32_t> Number(const std::string& flag, uint32_t otherwise, uint32_t max) const;
  // The words that are not flags; "--" ends the flags.
  const std::vector<std::string>& rest() const { return rest_; }

 private:
  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> rest_;
};

}  // namespace tern::tools
