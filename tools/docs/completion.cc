#include "tools/docs/completion.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/text.h"

namespace tern::tools {
namespace {

using setup::CommandDef;
using setup::FlagDef;
using setup::PositionalDef;

using Words = std::vector<std::string>;

// By the words so far ("tern", "tern keys"): the words that may follow, each with its summary.
using NextWords = std::map<std::string, std::vector<std::pair<std::string, std::string>>>;

NextWords FindNextWords(const std::string& program,
                        const std::vector<const CommandDef*>& commands) {
  NextWords next_words;
  for (const CommandDef* command : commands) {
    const std::string name = command->name;
    for (size_t end = program.size(); end < name.size();) {
      const std::string so_far = name.substr(0, end);
      const size_t next_end = std::min(name.find(' ', end + 1), name.size());
      const std::string word = name.substr(end + 1, next_end - end - 1);
      auto& words = next_words[so_far];
      const bool is_new = std::none_of(words.begin(), words.end(),
                                       [&](const auto& known) { return known.first == word; });
      if (is_new)
        words.emplace_back(word, next_end == name.size() ? command->summary : word + " commands");
      end = next_end;
    }
  }
  return next_words;
}

// The patterns, as in 'tern run' | 'tern keys', of all words that lead on from what was typed.
std::string KnownPrefixes(const NextWords& next_words) {
  Words prefixes;
  for (const auto& [so_far, words] : next_words)
    for (const auto& [word, summary] : words) prefixes.push_back(Cat("'", so_far, " ", word, "'"));
  return Join(prefixes, " | ");
}

// The words of a value "a|b"; empty for other values.
Words Choices(const FlagDef& flag) {
  Words choices;
  const std::string value = flag.value_name;
  if (value.find('|') == std::string::npos) return choices;
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find('|', begin), value.size());
    choices.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return choices;
}

bool IsFileName(const std::string& value_name) {
  return value_name == "FILE" || value_name == "JOB" || value_name.ends_with("DIR");
}

std::string BashCase(const CommandDef& command) {
  Words flags, takers;
  std::string choices;
  for (const FlagDef& flag : command.flags) {
    flags.push_back(Cat("--", flag.name));
    const std::string letter = *flag.letter == 0 ? "" : Cat("-", flag.letter);
    if (!letter.empty()) flags.push_back(letter);
    if (const Words words = Choices(flag); !words.empty()) {
      choices += Cat("        --", flag.name, ") words='", Join(words, " "), "' ;;\n");
    } else if (*flag.value_name != 0) {
      takers.push_back(Cat("--", flag.name, letter.empty() ? "" : " | " + letter));
    }
  }
  flags.push_back(Cat("--", setup::kHelpFlag.name));
  flags.emplace_back("-h");
  // The value of a flag, and arguments, are completed as names of files: words stays empty.
  return Cat("    '", command.name, "')\n      case $previous in\n", choices,
             takers.empty() ? "" : Cat("        ", Join(takers, " | "), ") ;;\n"),
             "        *) [[ $current != -* ]] || words='", Join(flags, " "),
             "' ;;\n      esac\n      ;;\n");
}

// A text within single quotes of zsh, and within the brackets or colons of _arguments.
std::string ZshText(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') quoted += '\\';
    if (c != '`') quoted += c;
  }
  return quoted;
}

std::string ZshAction(const std::string& value_name, const Words& choices) {
  if (!choices.empty()) return Cat("(", Join(choices, " "), ")");
  return IsFileName(value_name) || value_name == "NET" || value_name == "WEIGHTS" ||
                 value_name == "OUT" || value_name == "IMAGE"
             ? "_files"
             : "";
}

std::string ZshCase(const CommandDef& command) {
  std::string text = Cat("    '", command.name, "')\n      _arguments \\\n");
  for (const FlagDef& flag : command.flags) {
    const std::string value_name = flag.value_name;
    std::vector<std::string> names = {Cat("--", flag.name, value_name.empty() ? "" : "=")};
    if (*flag.letter != 0) names.push_back(Cat("-", flag.letter, value_name.empty() ? "" : "+"));
    for (const std::string& name : names) {
      text += Cat("        '*", name, "[", ZshText(flag.help), "]");
      if (!value_name.empty())
        text += Cat(":", ZshText(value_name), ":", ZshAction(value_name, Choices(flag)));
      text += "' \\\n";
    }
  }
  text += Cat("        '(- *)--", setup::kHelpFlag.name, "[", setup::kHelpFlag.help,
              "]' \\\n        '(- *)-h[", setup::kHelpFlag.help, "]'");
  for (size_t i = 0; i < command.positionals.size(); ++i) {
    const PositionalDef& positional = command.positionals[i];
    const std::string place = positional.is_repeated ? "*" : Cat(i + 1);
    text += Cat(" \\\n        '", place, positional.is_optional ? "::" : ":", positional.name, ":",
                ZshAction(positional.name, {}), "'");
  }
  if (command.program != nullptr) text += " \\\n        '*:::program:_normal'";
  return text + "\n      ;;\n";
}

}  // namespace

std::string BashCompletion(const std::string& program,
                           const std::vector<const CommandDef*>& commands) {
  const NextWords next_words = FindNextWords(program, commands);
  std::string text =
      Cat("# Completion of ", program, " for bash. Written by tern generate_docs.\n_", program,
          "() {\n",
          "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
          "  local command=",
          program, " words='' word\n");
  if (!next_words.empty()) {
    text +=
        Cat("  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
            "    case \"$command $word\" in\n      ",
            KnownPrefixes(next_words),
            ") command=\"$command $word\" ;;\n      *) break ;;\n    esac\n  done\n");
  }
  // bash gives --flag=value as three words.
  text +=
      "  [[ $previous != = ]] || previous=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  if [[ $current == = ]]; then previous=${COMP_WORDS[COMP_CWORD-1]} current=''; fi\n"
      "  case $command in\n";
  for (const auto& [so_far, words] : next_words) {
    Words names;
    for (const auto& [word, summary] : words) names.push_back(word);
    if (so_far == program) names.insert(names.end(), {"help", "--version"});
    names.insert(names.end(), {"--help", "-h"});
    text += Cat("    '", so_far, "') words='", Join(names, " "), "' ;;\n");
  }
  for (const CommandDef* command : commands) text += BashCase(*command);
  return Cat(text, "  esac\n  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n}\n",
             "complete -o default -F _", program, " ", program, "\n");
}

std::string ZshCompletion(const std::string& program,
                          const std::vector<const CommandDef*>& commands) {
  const NextWords next_words = FindNextWords(program, commands);
  std::string text = Cat("#compdef ", program, "\n# Written by tern generate_docs.\n_", program,
                         "() {\n  local command=", program, "\n  local -a next_words\n");
  if (!next_words.empty()) {
    text += Cat("  while (( CURRENT > 2 )); do\n    case \"$command ${words[2]}\" in\n      ",
                KnownPrefixes(next_words),
                ") command=\"$command ${words[2]}\"; shift words; (( CURRENT-- )) ;;\n"
                "      *) break ;;\n    esac\n  done\n");
  }
  text += "  case $command in\n";
  for (const auto& [so_far, words] : next_words) {
    text += Cat("    '", so_far, "')\n      next_words=(\n");
    for (const auto& [word, summary] : words)
      text += Cat("        '", word, ":", ZshText(summary), "'\n");
    if (so_far == program) {
      text += Cat("        'help:", setup::kHelpFlag.help,
                  "'\n        '--version:", setup::kVersionFlag.help, "'\n");
    }
    text += Cat("        '--help:", setup::kHelpFlag.help, "'\n        '-h:", setup::kHelpFlag.help,
                "'\n      )\n      _describe command next_words\n      ;;\n");
  }
  for (const CommandDef* command : commands) text += ZshCase(*command);
  return Cat(text, "  esac\n}\n_", program, " \"$@\"\n");
}

}  // namespace tern::tools
