// Fuzzes the command lines of the daemons and of the tools. The lines of the input are the
// arguments.
#include <gflags/gflags.h>

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "setup/arguments.h"
#include "setup/command_line.h"

namespace {

const tern::setup::CommandDef kCommand = {
    "target",
    "",
    "",
    {{"JOB", ""}, {"OUT", "", true}},
    {tern::setup::kSetFlag, {"rank", "N", "3", ""}, {"check", "", "", ""}}};

// Whether an argument might ask for help or the version, which end the process.
bool EndsTheProcess(const std::string& argument) {
  return argument.starts_with("-h") || argument.starts_with("--help") ||
         argument.starts_with("--version");
}

// The message of a usage error is printable.
void CheckError(const tern::Status& status) {
  if (status.code() != tern::Code::kUsage || status.message().empty()) std::abort();
  for (const unsigned char c : status.message()) {
    if ((c < 0x20 && c != '\n') || c >= 0x7f) std::abort();
  }
}

void CheckDaemon(const std::vector<std::string>& arguments, const std::string& role) {
  const gflags::FlagSaver flag_saver;
  std::vector<std::string> words = {"tern_" + role};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const auto line =
      tern::setup::ParseCommandLine(static_cast<int>(words.size()), argv.data(), role, "");
  if (!line.ok()) return CheckError(line.status());
  if (line->job_path.empty() || (role == "server" && !line->weights_path.empty())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<std::string> arguments;
  for (std::string line; std::getline(lines, line);) {
    if (!EndsTheProcess(line)) arguments.push_back(line.substr(0, line.find('\0')));
  }
  CheckDaemon(arguments, "server");
  CheckDaemon(arguments, "worker");
  const auto parsed = tern::setup::Arguments::Parse(kCommand, arguments);
  if (!parsed.ok()) {
    CheckError(parsed.status());
    return 0;
  }
  if (const auto number = parsed->NumberValue("rank", 1000); !number.ok()) {
    CheckError(number.status());
  } else if (*number > 1000) {
    std::abort();
  }
  if (parsed->AllValues("set").size() + parsed->positional().size() > arguments.size())
    std::abort();
  return 0;
}
