// Tests of how `tern` chooses a command, and of its help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tools/command_table.h"

namespace tern::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// What RunCommandLine prints for `args`, with which it succeeds.
std::string OutputOf(const std::vector<std::string>& args) {
  testing::internal::CaptureStdout();
  const Status status = RunCommandLine(args, "the version\n");
  std::fflush(stdout);
  EXPECT_TRUE(status.ok()) << testing::PrintToString(args) << ": " << status.message();
  return testing::internal::GetCapturedStdout();
}

std::string UsageErrorOf(const std::vector<std::string>& args) {
  const Status status = RunCommandLine(args, "the version\n");
  EXPECT_EQ(status.code(), Code::kUsage) << testing::PrintToString(args);
  return status.message();
}

std::vector<std::string> Split(const std::string& words) {
  std::istringstream in(words);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(CommandLine, EveryCommandHasAHelp) {
  for (const Command& command : Commands()) {
    std::vector<std::string> with_flag = Split(command.words()), as_question = {"help"};
    as_question.insert(as_question.end(), with_flag.begin(), with_flag.end());
    with_flag.emplace_back("--help");
    const std::string help = OutputOf(with_flag);
    EXPECT_THAT(help, HasSubstr(std::string("Usage: ") + command.def.name));
    for (const setup::FlagDef& flag : command.def.flags)
      EXPECT_THAT(help, HasSubstr(std::string("--") + flag.name));
    EXPECT_EQ(OutputOf(as_question), help);
    with_flag.back() = "-h";
    EXPECT_EQ(OutputOf(with_flag), help);
  }
}

TEST(CommandLine, PrintsTheVersion) {
  EXPECT_EQ(OutputOf({"--version"}), "the version\n");
  EXPECT_EQ(OutputOf({"version"}), "the version\n");
}

// Shells, and readers, need to tell the flags apart.
TEST(CommandLine, DefinitionsAreWellFormed) {
  std::set<std::string> names;
  for (const Command& command : Commands()) {
    EXPECT_TRUE(names.insert(command.def.name).second) << command.def.name;
    EXPECT_THAT(command.def.name, testing::StartsWith("tern "));
    EXPECT_THAT(command.def.summary, Not(testing::EndsWith(".")));
    EXPECT_THAT(command.def.description, testing::EndsWith("."));
    std::set<std::string> flags = {"help", "h"};
    for (const setup::FlagDef& flag : command.def.flags) {
      EXPECT_TRUE(flags.insert(flag.name).second) << command.def.name << " --" << flag.name;
      EXPECT_THAT(flag.help, testing::EndsWith(".")) << command.def.name << " --" << flag.name;
    }
  }
}

TEST(CommandLine, OverviewListsTheCommandsButNoHiddenOnes) {
  const std::string overview = OutputOf({"help"});
  EXPECT_EQ(OutputOf({"--help"}), overview);
  EXPECT_EQ(OutputOf({"-h"}), overview);
  for (const Command& command : Commands()) {
    if (command.is_hidden) {
      EXPECT_THAT(overview, Not(HasSubstr(command.words())));
    } else {
      EXPECT_THAT(overview, HasSubstr("  " + command.words() + " "));
    }
  }
}

TEST(CommandLine, ExplainsTheWordsAfterAFirstOne) {
  EXPECT_THAT(OutputOf({"convert", "--help"}),
              AllOf(HasSubstr("convert pack"), HasSubstr("convert onnx"), Not(HasSubstr("run"))));
  EXPECT_THAT(UsageErrorOf({"convert"}), HasSubstr("tern convert needs a word after it; known: "
                                                   "pack, onnx"));
  EXPECT_THAT(UsageErrorOf({"keys", "show"}),
              HasSubstr("there is no command 'keys show'; known: make"));
}

TEST(CommandLine, SaysWhatAnUnknownCommandProbablyMeans) {
  EXPECT_THAT(UsageErrorOf({"chekc"}), HasSubstr("no command 'chekc'; did you mean tern check? "
                                                 "Known: run, "));
  EXPECT_THAT(UsageErrorOf({"train", "x"}), HasSubstr("did you mean tern run?"));
  EXPECT_THAT(UsageErrorOf({"evaluate"}), HasSubstr("did you mean tern_worker"));
  EXPECT_THAT(UsageErrorOf({"nonsense"}),
              AllOf(HasSubstr("no command 'nonsense'; known: run,"), Not(HasSubstr("generate"))));
  EXPECT_THAT(UsageErrorOf({}), HasSubstr("no command; known: run,"));
  EXPECT_THAT(UsageErrorOf({"\n"}), HasSubstr("'\\x0a'"));
}

TEST(CommandLine, AnOldNameStillWorksAndSaysSo) {
  testing::internal::CaptureStderr();
  const std::string help = OutputOf({"predict", "--help"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tern: `tern predict` is called `tern forecast` now\n");
  EXPECT_EQ(help, OutputOf({"forecast", "--help"}));
}

}  // namespace
}  // namespace tern::tools
