#include "tools/docs/man_page.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "common/base/status.h"
#include "common/base/text.h"
#include "tools/docs/roff.h"

namespace tern::tools {
namespace {

using setup::CommandDef;
using setup::FlagDef;
using setup::PositionalDef;

std::string Header(const std::string& page, int section, const std::string& version) {
  std::string title = page;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  // Without a date, so that equal sources give equal pages.
  return Cat(".TH ", RoffText(title), " ", section, " \"\" \"Tern ", version, "\" \"Tern\"\n");
}

std::string Section(const std::string& title) { return Cat(".SH ", title, "\n"); }

std::string Name(const std::string& page, const std::string& summary) {
  return Cat(Section("NAME"), RoffText(page), " \\- ", RoffSentences(summary), "\n");
}

std::string Item(const std::string& head, const std::string& text) {
  return Cat(".TP\n", head, "\n", RoffSentences(text), "\n");
}

std::string FlagItem(const FlagDef& flag) {
  std::string head = Cat("\\fB\\-\\-", RoffText(flag.name), "\\fR");
  if (*flag.letter != 0) head = Cat("\\fB\\-", flag.letter, "\\fR, ", head);
  if (*flag.value_name != 0) head += Cat(" \\fI", RoffText(flag.value_name), "\\fR");
  return Item(head, FlagHelp(flag));
}

std::string MeaningOf(Code code) {
  switch (code) {
    case Code::kOk:
      return "Done.";
    case Code::kUsage:
      return "The command line is wrong.";
    case Code::kBadData:
      return "A data file, image, checkpoint or file of weights is damaged or unsuitable.";
    case Code::kAddress:
      return "An address does not resolve, or a port or output folder is in use.";
    case Code::kInternal:
      return "A bug of Tern, or a system call failed.";
    case Code::kCannotWrite:
      return "Output cannot be written: a full disk, or a read-only folder.";
    case Code::kPeerLost:
      return "A peer was lost; start the job again.";
    case Code::kMismatch:
      return "A peer has another wire version, job, model or plan, or replicas differ.";
    case Code::kNotAllowed:
      return "Not allowed: the rank is taken, or the peer does not accept the key.";
    case Code::kBadJob:
      return "The job file, or a key file, is invalid.";
    case Code::kDiverged:
      return "The training diverged: a value is not finite.";
    case Code::kInterrupted:
      return "Stopped in order by SIGINT.";
    case Code::kTerminated:
      return "Stopped in order by SIGTERM or SIGHUP.";
  }
  return "";
}

std::string ExitStatus() {
  std::string text = Section("EXIT STATUS");
  text += Item("\\fB0\\fR", MeaningOf(Code::kOk));
  for (const Code code : kErrorCodes)
    text += Item(Cat("\\fB", static_cast<int>(code), "\\fR"), MeaningOf(code));
  return text;
}

}  // namespace

std::string PageName(const std::string& command) {
  std::string page = command;
  std::replace(page.begin(), page.end(), ' ', '-');
  return page;
}

std::string ManPage(const CommandDef& command, const std::string& version) {
  const std::string page = PageName(command.name);
  std::string roff = Header(page, 1, version) + Name(page, command.summary) + Section("SYNOPSIS");
  roff += Cat(".B ", RoffText(command.name), "\n[\\fIOPTIONS\\fR]");
  for (const PositionalDef& positional : command.positionals) {
    const std::string name =
        Cat("\\fI", RoffText(positional.name), "\\fR", positional.is_repeated ? "..." : "");
    roff += positional.is_optional ? Cat(" [", name, "]") : " " + name;
  }
  if (command.program != nullptr)
    roff += Cat(command.program->is_optional ? " [" : " ", "\\-\\- \\fI",
                RoffText(command.program->name), "\\fR [\\fIARGUMENT\\fR...]",
                command.program->is_optional ? "]" : "");
  roff += Cat("\n", Section("DESCRIPTION"), RoffSentences(command.description), "\n");
  for (const PositionalDef& positional : command.positionals)
    roff += Item(Cat("\\fI", RoffText(positional.name), "\\fR"), positional.help);
  if (command.program != nullptr)
    roff += Item(Cat("\\fI", RoffText(command.program->name), "\\fR"), command.program->help);
  roff += Section("OPTIONS");
  for (const FlagDef& flag : command.flags) roff += FlagItem(flag);
  return Cat(roff, FlagItem(setup::kHelpFlag), ExitStatus(), Section("SEE ALSO"),
             ".BR tern (1),\n.BR tern\\-job (5)\n");
}

std::string OverviewPage(const std::vector<const CommandDef*>& commands,
                         const std::string& version) {
  std::string roff = Cat(
      Header("tern", 1, version),
      Name("tern", "distributed training of convolutional networks with quantized gradients"),
      Section("SYNOPSIS"), ".B tern\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR] ...\n",
      Section("DESCRIPTION"),
      RoffSentences(
          "A job is described by one file. `tern run` starts its servers and workers on this "
          "machine; on several machines `tern_server` and `tern_worker` are started with the same "
          "file. Each command has a page of its own."),
      "\n", Section("COMMANDS"));
  std::string pages = ".BR tern_server (1),\n.BR tern_worker (1),\n.BR tern\\-job (5)\n";
  for (const CommandDef* command : commands) {
    roff += Item(Cat("\\fB", RoffText(command->name), "\\fR"), command->summary);
    pages = Cat(".BR ", RoffText(PageName(command->name)), " (1),\n", pages);
  }
  return Cat(roff, Section("OPTIONS"), FlagItem(setup::kVersionFlag), FlagItem(setup::kHelpFlag),
             ExitStatus(), Section("SEE ALSO"), pages);
}

std::string JobPage(const std::string& reference, const std::string& version) {
  std::string roff =
      Cat(Header("tern-job", 5, version), Name("tern-job", "the file of a job of Tern"),
          Section("DESCRIPTION"), ".nf\n");
  std::istringstream lines(reference);
  // A comment belongs to the key below it; a key at the beginning of a line opens a section.
  std::string comment;
  for (std::string line; std::getline(lines, line);) {
    const bool is_comment = line.starts_with("# ") && !line.starts_with("#  ");
    const bool is_key = !line.empty() && std::islower(static_cast<unsigned char>(line[0])) != 0;
    if (is_comment) {
      comment += RoffText(line) + "\n";
      continue;
    }
    if (is_key) {
      const std::string key = line.substr(0, line.find(':'));
      roff += Cat(".fi\n", Section(RoffText(key)), ".nf\n");
    }
    roff += Cat(comment, RoffText(line), "\n");
    comment.clear();
  }
  return Cat(roff, comment, ".fi\n", Section("SEE ALSO"), ".BR tern (1),\n.BR tern\\-check (1)\n");
}

}  // namespace tern::tools
