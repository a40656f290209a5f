#include "tools/arguments.h"

#include <algorithm>
#include <charconv>

#include "common/base/text.h"

namespace tern::tools {

Result<Arguments> Arguments::Parse(const std::vector<std::string>& args,
                                   const std::vector<Flag>& flags, const std::string& usage) {
  Arguments arguments;
  std::vector<std::string> known_flags;
  for (const Flag& flag : flags) known_flags.push_back("--" + flag.name);
  const auto usage_error = [&](const std::string& sentence) {
    return Status(Code::kUsage,
                  Cat(sentence, "; known flags: ", Join(known_flags), "\nusage: ", usage));
  };
  bool is_after_flags = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& argument = args[i];
    if (is_after_flags || argument.size() < 2 || argument[0] != '-') {
      arguments.positional_.push_back(argument);
      continue;
    }
    if (argument == "--") {
      is_after_flags = true;
      continue;
    }
    const std::string flag_text = argument.substr(argument.starts_with("--") ? 2 : 1);
    const size_t equals_at = flag_text.find('=');
    const std::string name = flag_text.substr(0, equals_at);
    const auto flag =
        std::find_if(flags.begin(), flags.end(), [&](const Flag& f) { return f.name == name; });
    if (flag == flags.end()) return usage_error("there is no flag " + Printable(argument));
    std::vector<std::string>& values = arguments.values_of_flags_[name];
    if (!flag->takes_value) {
      if (equals_at != std::string::npos) return usage_error("--" + name + " takes no value");
      continue;
    }
    if (equals_at != std::string::npos) {
      values.push_back(flag_text.substr(equals_at + 1));
    } else if (++i < args.size()) {
      values.push_back(args[i]);
    } else {
      return usage_error("--" + name + " needs a value after it");
    }
  }
  return arguments;
}

std::vector<std::string> Arguments::AllValues(const std::string& flag) const {
  const auto flag_values = values_of_flags_.find(flag);
  return flag_values == values_of_flags_.end() ? std::vector<std::string>() : flag_values->second;
}

std::string Arguments::LastValue(const std::string& flag, const std::string& default_value) const {
  const std::vector<std::string> values = AllValues(flag);
  return values.empty() ? default_value : values.back();
}

Result<uint32_t> Arguments::NumberValue(const std::string& flag, uint32_t default_value,
                                        uint32_t max) const {
  if (!HasFlag(flag)) return default_value;
  const std::string value_text = LastValue(flag, "");
  uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(value_text.data(), value_text.data() + value_text.size(), number);
  if (error == std::errc() && end == value_text.data() + value_text.size() && number <= max &&
      !value_text.empty())
    return number;
  return Status(Code::kUsage, Cat("--", flag, ": saw '", Printable(value_text),
                                  "'; allowed: a whole number, 0 to ", max));
}

}  // namespace tern::tools
