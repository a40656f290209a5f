#include "setup/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

#include "common/base/text.h"
#include "common/config/fields.h"
#include "common/config/nearest.h"

namespace tern::setup {
namespace {

constexpr size_t kHelpColumn = 28, kHelpWidth = 100;

// Breaks a text into lines of at most kHelpWidth - `indent` characters; longer words stand alone.
std::string Wrap(const std::string& text, size_t indent) {
  std::istringstream words(text);
  std::string wrapped;
  size_t line_length = 0;
  for (std::string word; words >> word;) {
    if (line_length > 0 && line_length + 1 + word.size() > kHelpWidth - indent) {
      wrapped += '\n';
      line_length = 0;
    } else if (line_length > 0) {
      wrapped += ' ';
      ++line_length;
    }
    wrapped += word;
    line_length += word.size();
  }
  return wrapped;
}

std::string Dashed(const std::string& name) { return "--" + name; }

// As CLI11 takes the names of a flag: "-h,--help".
std::string NamesOf(const FlagDef& flag) {
  return *flag.letter == 0 ? Dashed(flag.name) : Cat("-", flag.letter, ",", Dashed(flag.name));
}

// CLI11's parser of a command.
class Parser {
 public:
  explicit Parser(const CommandDef& command)
      : app_(Wrap(Cat(command.name, ": ", command.summary, ". ", command.description), 0) + "\n",
             command.name) {
    app_.get_formatter()->column_width(kHelpColumn);
    app_.set_help_flag(NamesOf(kHelpFlag), kHelpFlag.help);
    if (command.program != nullptr) {
      program_ = command.program->name;
      program_is_optional_ = command.program->is_optional;
    }
    app_.allow_extras();  // Arguments::Parse explains them better.
    for (const PositionalDef& positional : command.positionals) {
      const std::string help = Wrap(positional.help, kHelpColumn);
      positionals_.push_back(app_.add_option(positional.name, help)->option_text(" "));
      if (positional.is_repeated)
        positionals_.back()->expected(1, -1)->take_all()->allow_extra_args();
      // The count is checked in Arguments::Parse; this is for the usage line.
      is_required_.push_back(!positional.is_optional);
    }
    for (const FlagDef& flag : command.flags) {
      const std::string help = Wrap(FlagHelp(flag), kHelpColumn);
      flags_.push_back(*flag.value_name == 0
                           ? app_.add_flag(NamesOf(flag), help)->disable_flag_override()
                           : app_.add_option(NamesOf(flag), help)
                                 ->expected(1)
                                 ->take_all()
                                 ->allow_extra_args(false)
                                 ->option_text(flag.value_name));
    }
  }

  // Throws what CLI11 throws.
  void Parse(const std::vector<std::string>& args) {
    std::vector<std::string> reversed(args.rbegin(), args.rend());
    app_.parse(reversed);
  }
  std::string Help() {
    for (size_t i = 0; i < positionals_.size(); ++i) positionals_[i]->required(is_required_[i]);
    std::string help = app_.help();
    if (!program_.empty()) {
      const std::string options = "[OPTIONS]";
      const std::string words = Cat("-- ", program_, " [ARGUMENT...]");
      if (program_is_optional_) {
        help.insert(help.find('\n', help.find(options)), Cat(" [", words, "]"));
      } else {
        help.insert(help.find(options) + options.size(), " " + words);
      }
    }
    return help;
  }
  const std::vector<CLI::Option*>& flags() const { return flags_; }
  const std::vector<CLI::Option*>& positionals() const { return positionals_; }
  std::vector<std::string> extras() const { return app_.remaining(); }

 private:
  CLI::App app_;
  std::vector<CLI::Option*> flags_, positionals_;
  std::vector<bool> is_required_;
  std::string program_;  // What the help calls the program behind "--"; "": there is none.
  bool program_is_optional_ = false;
};

bool IsFlag(const std::string& argument) { return argument.size() > 1 && argument[0] == '-'; }

const FlagDef* FindFlag(const CommandDef& command, const std::string& name) {
  const auto flag = std::find_if(command.flags.begin(), command.flags.end(), [&](const FlagDef& f) {
    return name == f.name || (*f.letter != 0 && name == f.letter);
  });
  return flag == command.flags.end() ? nullptr : &*flag;
}

// "-name", "--name" or "--name=value" without dashes and value.
std::string NameOf(const std::string& argument) {
  const size_t begin = std::min(argument.find_first_not_of('-'), argument.size());
  return argument.substr(begin, argument.find('=', begin) - begin);
}

// The value of the unknown flag `argument` of `args`: what follows "=", or the next argument; else
// "VALUE".
std::string ValueOf(const std::string& argument, const std::vector<std::string>& args) {
  if (const size_t equals = argument.find('='); equals != std::string::npos)
    return argument.substr(equals + 1);
  const auto flag = std::find(args.begin(), args.end(), argument);
  if (flag == args.end() || flag + 1 == args.end() || IsFlag(flag[1])) return "VALUE";
  return flag[1];
}

// The key of the job that other programs call `name`; "": none.
std::string KeyOfFlag(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  static const std::map<std::string, std::string> kKeys = {
      {"batch", "train.batch_total"},
      {"batch_size", "train.batch_total"},
      {"lr", "train.schedule.learning_rate"},
      {"out", "output_dir"},
      {"output", "output_dir"},
      {"momentum", "train.optimizer.momentum"}};
  const auto found = kKeys.find(name);
  if (found != kKeys.end()) return found->second;
  return config::IsValueKey(name) ? name : config::FindValueKey(name);
}

// What the user of the unknown flag `argument` of `args` probably meant.
std::string Suggestion(const CommandDef& command, const std::string& argument,
                       const std::vector<std::string>& args) {
  const std::string name = NameOf(argument);
  const std::string key = FindFlag(command, kSetFlag.name) == nullptr ? "" : KeyOfFlag(name);
  if (!key.empty()) {
    return Cat("; that is a key of the job: say --set ", key, "=",
               Printable(ValueOf(argument, args)));
  }
  std::vector<std::string> known_names = {kHelpFlag.name};
  for (const FlagDef& flag : command.flags) known_names.emplace_back(flag.name);
  const std::string nearest = config::NearestName(name, known_names);
  return nearest.empty() ? "" : Cat("; did you mean ", Dashed(nearest), "?");
}

// Flags without value and unknown ones: the error, if `args` have one that CLI11 does not see.
Status CheckFlags(const CommandDef& command, const std::vector<std::string>& args,
                  const std::vector<std::string>& extras) {
  for (const std::string& argument : args) {
    if (argument == "--") break;
    // CLI11 would take the next argument as the value.
    if (!argument.starts_with("--") || argument.find('=') + 1 != argument.size()) continue;
    const FlagDef* flag = FindFlag(command, NameOf(argument));
    if (flag != nullptr && *flag->value_name != 0)
      return UsageError(command, Cat(Printable(argument), " has no value"));
  }
  for (const std::string& argument : extras) {
    if (argument == "--") break;
    // A program without "--", which may have flags of its own.
    if (command.program != nullptr && !IsFlag(argument)) break;
    if (IsFlag(argument)) {
      return UsageError(command, Cat("there is no flag ", Printable(argument),
                                     Suggestion(command, argument, args)));
    }
  }
  return Ok();
}

Status CheckPositionals(const CommandDef& command, const std::vector<std::string>& extras,
                        size_t given) {
  for (const std::string& argument : extras) {
    if (argument == "--") continue;
    return UsageError(
        command, Cat("saw '", Printable(argument), "', which is one argument too many",
                     command.program != nullptr ? "; the program goes after --, as in: -- python "
                                                  "train.py"
                     : FindFlag(command, "job") == nullptr ? ""
                                                           : "; the job file goes after --job"));
  }
  for (size_t i = given; i < command.positionals.size(); ++i) {
    const PositionalDef& positional = command.positionals[i];
    if (!positional.is_optional)
      return UsageError(command, Cat(positional.name, " is missing: ", positional.help));
  }
  return Ok();
}

// The error that CLI11 has thrown: a flag lacks its value, or has one and takes none.
Status ValueError(const CommandDef& command, const std::string& what) {
  const std::string name = NameOf(what.substr(0, what.find_first_of(": ")));
  const FlagDef* flag = FindFlag(command, name);
  if (flag == nullptr) return UsageError(command, Printable(what, 200));
  return UsageError(command, Cat(Dashed(name), *flag->value_name == 0 ? " takes no value"
                                                                      : " needs a value after it"));
}

}  // namespace

Status UsageError(const CommandDef& command, const std::string& sentence) {
  const bool ends = sentence.ends_with('.') || sentence.ends_with('?');
  return Status(Code::kUsage, Cat(sentence, ends ? " " : "; ", "`", command.name,
                                  " --help` lists arguments and flags"));
}

Result<Arguments> Arguments::Parse(const CommandDef& command,
                                   const std::vector<std::string>& all_args) {
  Arguments arguments;
  const auto separator = command.program == nullptr
                             ? all_args.end()
                             : std::find(all_args.begin(), all_args.end(), "--");
  const std::vector<std::string> args(all_args.begin(), separator);
  if (separator != all_args.end()) arguments.program_.assign(separator + 1, all_args.end());
  Parser parser(command);
  try {
    parser.Parse(args);
  } catch (const CLI::CallForHelp&) {
    arguments.help_text_ = parser.Help();
    return arguments;
  } catch (const CLI::Error& error) {
    TERN_RETURN_IF_ERROR(CheckFlags(command, args, parser.extras()));
    return ValueError(command, error.what());
  }
  TERN_RETURN_IF_ERROR(CheckFlags(command, args, parser.extras()));
  for (const CLI::Option* positional : parser.positionals()) {
    const std::vector<std::string>& values = positional->results();
    arguments.positional_.insert(arguments.positional_.end(), values.begin(), values.end());
  }
  TERN_RETURN_IF_ERROR(CheckPositionals(command, parser.extras(), arguments.positional_.size()));
  const bool needs_program =
      command.program != nullptr && (!command.program->is_optional || separator != all_args.end());
  if (needs_program && arguments.program_.empty()) {
    return UsageError(command,
                      Cat(command.program->name, " is missing after --: ", command.program->help));
  }
  for (size_t i = 0; i < command.flags.size(); ++i) {
    const FlagDef& flag = command.flags[i];
    arguments.defaults_[flag.name] = flag.default_value;
    if (!parser.flags()[i]->empty())
      arguments.values_of_flags_[flag.name] = parser.flags()[i]->results();
  }
  return arguments;
}

std::vector<std::string> Arguments::AllValues(const std::string& flag) const {
  const auto flag_values = values_of_flags_.find(flag);
  return flag_values == values_of_flags_.end() ? std::vector<std::string>() : flag_values->second;
}

std::string Arguments::LastValue(const std::string& flag) const {
  const std::vector<std::string> values = AllValues(flag);
  return values.empty() ? defaults_.at(flag) : values.back();
}

Result<uint32_t> Arguments::NumberValue(const std::string& flag, uint32_t max) const {
  const std::string value_text = LastValue(flag);
  uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(value_text.data(), value_text.data() + value_text.size(), number);
  if (error == std::errc() && end == value_text.data() + value_text.size() && number <= max &&
      !value_text.empty())
    return number;
  return Status(Code::kUsage, Cat("--", flag, ": saw '", Printable(value_text),
                                  "'; allowed: a whole number, 0 to ", max));
}

Result<double> Arguments::PositiveValue(const std::string& flag, double max) const {
  const std::string value_text = LastValue(flag);
  double number = 0;
  const auto [end, error] =
      std::from_chars(value_text.data(), value_text.data() + value_text.size(), number);
  if (error == std::errc() && end == value_text.data() + value_text.size() && number > 0 &&
      number <= max)
    return number;
  return Status(Code::kUsage, Cat("--", flag, ": saw '", Printable(value_text),
                                  "'; allowed: a number above 0, up to ", max));
}

}  // namespace tern::setup
