// tern generate_docs: writes man pages and completion of shells.
#include <filesystem>
#include <map>
#include <system_error>

#include "common/base/atomic_file.h"
#include "common/base/text.h"
#include "setup/daemon_def.h"
#include "setup/version.h"
#include "tools/command_table.h"
#include "tools/commands.h"
#include "tools/docs/completion.h"
#include "tools/docs/man_page.h"

namespace tern::tools {
namespace {

using CommandDefs = std::vector<const setup::CommandDef*>;

CommandDefs PublicCommands() {
  CommandDefs defs;
  for (const Command& command : Commands())
    if (!command.is_hidden) defs.push_back(&command.def);
  return defs;
}

Status WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) {
    return Status(Code::kCannotWrite, Cat("cannot create the folder ", path.parent_path().string(),
                                          ": ", error.message()));
  }
  return WriteFileAtomically(path.string(), text);
}

}  // namespace

Status GenerateDocs(const Arguments& arguments) {
  constexpr uint64_t kMaxBytes = 1 << 20;
  constexpr Time kReadTimeout = std::chrono::seconds(5);
  const std::string folder = arguments.positional()[0];
  const auto reference = ReadAtMost(arguments.positional()[1], kMaxBytes, kReadTimeout);
  if (!reference.ok()) return reference.status();
  const CommandDefs commands = PublicCommands();
  const std::string version = setup::TernVersion();
  std::map<std::string, std::string> texts_by_path = {
      {"man/man1/tern.1", OverviewPage(commands, version)},
      {"man/man5/tern-job.5", JobPage(*reference, version)}};
  CommandDefs defs_with_pages = commands;
  std::map<std::string, CommandDefs> commands_of_programs = {{"tern", commands}};
  for (const char* role : {"server", "worker"}) {
    const setup::CommandDef& daemon = setup::DaemonDef(role);
    defs_with_pages.push_back(&daemon);
    commands_of_programs[daemon.name] = {&daemon};
  }
  for (const setup::CommandDef* def : defs_with_pages)
    texts_by_path[Cat("man/man1/", PageName(def->name), ".1")] = ManPage(*def, version);
  for (const auto& [program, defs] : commands_of_programs) {
    texts_by_path["bash-completion/completions/" + program] = BashCompletion(program, defs);
    texts_by_path["zsh/site-functions/_" + program] = ZshCompletion(program, defs);
  }
  for (const auto& [path, text] : texts_by_path)
    TERN_RETURN_IF_ERROR(WriteFile(std::filesystem::path(folder) / path, text));
  return Ok();
}

}  // namespace tern::tools
