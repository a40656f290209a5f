// The command line of `tern`: chooses the command, and prints help and version.
#include <algorithm>
#include <cstdio>
#include <map>

#include "common/base/text.h"
#include "common/config/nearest.h"
#include "tools/command_table.h"
#include "tools/table.h"

namespace tern::tools {
namespace {

using Words = std::vector<std::string>;

// What others call a command: what to say about it.
const std::map<std::string, std::string> kForeignNames = {
    {"train", "did you mean tern run?"},
    {"start", "did you mean tern run, or, for programs of yours, tern launch?"},
    {"torchrun", "did you mean tern launch?"},
    {"mpirun", "did you mean tern launch?"},
    {"validate", "did you mean tern check?"},
    {"evaluate", "did you mean tern_worker --job JOB --evaluate WEIGHTS?"},
    {"eval", "did you mean tern_worker --job JOB --evaluate WEIGHTS?"}};

bool AsksForHelp(const std::string& word) {
  return word == "help" || word == "--help" || word == "-h";
}

// The commands that begin with the word `group`: "convert pack" and "convert onnx" for "convert".
std::vector<const Command*> CommandsOf(const std::string& group) {
  std::vector<const Command*> commands;
  for (const Command& command : Commands())
    if (command.words().starts_with(group + " ")) commands.push_back(&command);
  return commands;
}

std::string Summaries(const std::vector<const Command*>& commands) {
  std::vector<TableRow> rows;
  for (const Command* command : commands)
    if (!command->is_hidden) rows.push_back({command->words(), command->def.summary});
  return FormatTable(rows);
}

std::string Overview() {
  std::vector<const Command*> commands;
  for (const Command& command : Commands()) commands.push_back(&command);
  return Cat("tern: distributed training of convolutional networks with quantized gradients\n\n",
             "Usage: tern COMMAND [OPTIONS] ...\n\nCommands:\n", Summaries(commands),
             "\nOptions:\n  -h, --help   print this help, or that of a command: tern run --help\n"
             "  --version    print the version, the commit and the libraries\n");
}

Status UnknownCommandError(const std::string& name) {
  if (const auto foreign = kForeignNames.find(name); foreign != kForeignNames.end())
    return Status(Code::kUsage, Cat("there is no command '", name, "'; ", foreign->second));
  Words known_names;
  for (const Command& command : Commands()) {
    const std::string first_word = command.words().substr(0, command.words().find(' '));
    if (!command.is_hidden && (known_names.empty() || known_names.back() != first_word))
      known_names.push_back(first_word);
  }
  known_names.emplace_back("help");
  const std::string nearest = config::NearestName(name, known_names);
  return Status(Code::kUsage,
                Cat(name.empty() ? "no command" : "there is no command '" + Printable(name) + "'",
                    nearest.empty() ? "" : "; did you mean tern " + nearest + "?",
                    nearest.empty() ? "; known: " : " Known: ", Join(known_names)));
}

// A word that is no command of its own, but the first word of some.
Status RunGroup(const std::string& group, const std::vector<const Command*>& commands,
                const Words& rest) {
  if (!rest.empty() && AsksForHelp(rest[0])) {
    std::printf("Usage: tern %s COMMAND [OPTIONS] ...\n\nCommands:\n%s", group.c_str(),
                Summaries(commands).c_str());
    return Ok();
  }
  Words known_words;
  for (const Command* command : commands)
    known_words.push_back(command->words().substr(group.size() + 1));
  return Status(
      Code::kUsage,
      Cat(rest.empty() ? Cat("tern ", group, " needs a word after it")
                       : Cat("there is no command '", group, " ", Printable(rest[0]), "'"),
          "; known: ", Join(known_words), "; `tern ", group, " --help` explains them"));
}

Status Run(const Command& command, const Words& rest) {
  const auto arguments = setup::Arguments::Parse(command.def, rest);
  if (!arguments.ok()) return arguments.status();
  if (arguments->help_text().empty()) return command.run(*arguments);
  std::printf("%s", arguments->help_text().c_str());
  return Ok();
}

}  // namespace

Status RunCommandLine(const std::vector<std::string>& args, const std::string& version_text) {
  if (args.empty()) return UnknownCommandError("");
  const std::string& name = args[0];
  const Words rest(args.begin() + 1, args.end());
  if (AsksForHelp(name) && rest.empty()) {
    std::printf("%s", Overview().c_str());
    return Ok();
  }
  if (AsksForHelp(name)) {
    Words question = rest;
    question.emplace_back("--help");
    return RunCommandLine(question, version_text);
  }
  if (name == "version" || name == "--version") {
    std::printf("%s", version_text.c_str());
    return Ok();
  }
  for (const Command& command : Commands()) {
    if ("tern " + name == command.former_name) {
      std::fprintf(stderr, "tern: `tern %s` is called `%s` now\n", name.c_str(), command.def.name);
      return Run(command, rest);
    }
    if (name == command.words()) return Run(command, rest);
    if (!rest.empty() && name + " " + rest[0] == command.words())
      return Run(command, Words(rest.begin() + 1, rest.end()));
  }
  const std::vector<const Command*> commands = CommandsOf(name);
  return commands.empty() ? UnknownCommandError(name) : RunGroup(name, commands, rest);
}

}  // namespace tern::tools
