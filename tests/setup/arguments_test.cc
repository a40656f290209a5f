#include "setup/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/text.h"

namespace tern::setup {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const CommandDef kCommand = {
    "tern try",
    "try a job",
    "Tries it.",
    {{"JOB", "The job's file."}, {"OUT", "Where to write.", true}},
    {kSetFlag, {"restarts", "N", "7", "How often."}, {"free_ports", "", "", "Use free ports."}}};

void ExpectRefusal(const std::vector<std::string>& args, const std::string& expected_message) {
  const auto arguments = Arguments::Parse(kCommand, args);
  ASSERT_FALSE(arguments.ok()) << testing::PrintToString(args);
  EXPECT_EQ(arguments.status().code(), Code::kUsage);
  EXPECT_THAT(arguments.status().message(), HasSubstr(expected_message));
  EXPECT_THAT(arguments.status().message(),
              HasSubstr("`tern try --help` lists arguments and flags"));
}

TEST(Arguments, ReadsFlagsBeforeAndAfterPositionalArguments) {
  const auto arguments = Arguments::Parse(
      kCommand, {"--set", "a=1", "job.yaml", "--free_ports", "--set=b=2", "--restarts", "3"});
  ASSERT_TRUE(arguments.ok()) << arguments.status().message();
  EXPECT_THAT(arguments->AllValues("set"), ElementsAre("a=1", "b=2"));
  EXPECT_EQ(arguments->LastValue("set"), "b=2");
  EXPECT_THAT(arguments->positional(), ElementsAre("job.yaml"));
  EXPECT_TRUE(arguments->HasFlag("free_ports"));
  EXPECT_EQ(*arguments->NumberValue("restarts", 10), 3u);
  EXPECT_EQ(arguments->help_text(), "");
}

TEST(Arguments, MissingFlagsHaveTheirDefaults) {
  const auto arguments = Arguments::Parse(kCommand, {"job.yaml", "out"});
  ASSERT_TRUE(arguments.ok());
  EXPECT_THAT(arguments->positional(), ElementsAre("job.yaml", "out"));
  EXPECT_FALSE(arguments->HasFlag("free_ports"));
  EXPECT_FALSE(arguments->HasFlag("restarts"));
  EXPECT_THAT(arguments->AllValues("set"), IsEmpty());
  EXPECT_EQ(arguments->LastValue("set"), "");
  EXPECT_EQ(*arguments->NumberValue("restarts", 10), 7u);
}

TEST(Arguments, TheLastPositionalMayBeRepeated) {
  const CommandDef command = {"tern try",
                              "try a command",
                              "It does nothing.",
                              {{"JOB", "The job."}, {"IMAGE", "An image.", false, true}},
                              {{"top", "N", "1", "A number."}}};
  const auto arguments = Arguments::Parse(command, {"job.yaml", "a", "--top", "2", "b", "c"});
  ASSERT_TRUE(arguments.ok()) << arguments.status().message();
  EXPECT_THAT(arguments->positional(), ElementsAre("job.yaml", "a", "b", "c"));
  EXPECT_EQ(arguments->LastValue("top"), "2");
  const auto missing = Arguments::Parse(command, {"job.yaml"});
  EXPECT_THAT(missing.status().message(), HasSubstr("IMAGE is missing"));
  EXPECT_THAT(Arguments::Parse(command, {"--help"})->help_text(), HasSubstr("JOB IMAGE..."));
}

// Values may look like flags, like lists of CLI11, or be empty.
TEST(Arguments, TakesEveryValueAsItIs) {
  for (const std::string value : {"-3", "--set", "[a,b]", "{}", "", "a b", "'x'", "a=b=c"}) {
    const auto arguments = Arguments::Parse(kCommand, {"job.yaml", "--set", value});
    ASSERT_TRUE(arguments.ok()) << value << ": " << arguments.status().message();
    EXPECT_THAT(arguments->AllValues("set"), ElementsAre(value));
  }
}

TEST(Arguments, TwoDashesEndTheFlags) {
  const auto arguments = Arguments::Parse(kCommand, {"--", "--set"});
  ASSERT_TRUE(arguments.ok()) << arguments.status().message();
  EXPECT_THAT(arguments->positional(), ElementsAre("--set"));
  ExpectRefusal({"--", "--set", "b", "--c"}, "saw '--c', which is one argument too many");
}

TEST(Arguments, AFlagMayHaveALetter) {
  const CommandDef command = {
      "tern try", "try a job", "Tries it.", {}, {{"workers", "N", "7", "How many.", "n"}}};
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"-n", "3"}, {"-n3"}, {"--workers", "3"}, {"--workers=3"}}) {
    const auto arguments = Arguments::Parse(command, args);
    ASSERT_TRUE(arguments.ok()) << arguments.status().message();
    EXPECT_EQ(*arguments->NumberValue("workers", 10), 3u) << testing::PrintToString(args);
  }
  const auto without_value = Arguments::Parse(command, {"-n"});
  ASSERT_FALSE(without_value.ok());
  EXPECT_THAT(without_value.status().message(), HasSubstr("--workers needs a value after it"));
}

TEST(Arguments, TakesAProgramAsItIs) {
  const PositionalDef program = {"PROGRAM", "What to run."};
  const CommandDef command = {"tern try", "try a job", "Tries it.", {}, {kSetFlag}, &program};
  const auto arguments = Arguments::Parse(
      command, {"--set", "a=1", "--", "python", "--set", "[1,2]", "--", "--help", "-x=", ""});
  ASSERT_TRUE(arguments.ok()) << arguments.status().message();
  EXPECT_THAT(arguments->AllValues("set"), ElementsAre("a=1"));
  EXPECT_THAT(arguments->program(),
              ElementsAre("python", "--set", "[1,2]", "--", "--help", "-x=", ""));
  const auto help = Arguments::Parse(command, {"--help"});
  ASSERT_TRUE(help.ok());
  EXPECT_THAT(help->help_text(), HasSubstr("Usage: tern try [OPTIONS] -- PROGRAM [ARGUMENT...]\n"));
  const auto without_dashes = Arguments::Parse(command, {"python", "-x"});
  ASSERT_FALSE(without_dashes.ok());
  EXPECT_THAT(without_dashes.status().message(), HasSubstr("the program goes after --"));
  const auto without_program = Arguments::Parse(command, {"--set", "a=1", "--"});
  ASSERT_FALSE(without_program.ok());
  EXPECT_THAT(without_program.status().message(), HasSubstr("PROGRAM is missing after --"));
}

TEST(Arguments, AProgramMayBeOptional) {
  const PositionalDef program = {"PROGRAM", "What to run.", true};
  const PositionalDef job = {"JOB", "The job.", true};
  const CommandDef command = {"tern try", "try a job", "Tries it.", {job}, {kSetFlag}, &program};
  const auto without = Arguments::Parse(command, {"a.yaml"});
  ASSERT_TRUE(without.ok()) << without.status().message();
  EXPECT_THAT(without->program(), ElementsAre());
  EXPECT_THAT(without->positional(), ElementsAre("a.yaml"));
  const auto with = Arguments::Parse(command, {"--", "python", "-x"});
  ASSERT_TRUE(with.ok()) << with.status().message();
  EXPECT_THAT(with->program(), ElementsAre("python", "-x"));
  const auto empty = Arguments::Parse(command, {"a.yaml", "--"});
  ASSERT_FALSE(empty.ok());
  EXPECT_THAT(empty.status().message(), HasSubstr("PROGRAM is missing after --"));
  EXPECT_THAT(Arguments::Parse(command, {"--help"})->help_text(),
              HasSubstr("Usage: tern try [OPTIONS] [JOB] [-- PROGRAM [ARGUMENT...]]\n"));
}

TEST(Arguments, RefusesMissingAndUnexpectedValues) {
  ExpectRefusal({"job", "--set"}, "--set needs a value after it");
  ExpectRefusal({"--set=", "job"}, "--set= has no value");
  ExpectRefusal({"job", "--free_ports=yes"}, "--free_ports takes no value");
}

TEST(Arguments, RefusesMissingAndSurplusArguments) {
  ExpectRefusal({}, "JOB is missing: The job's file.");
  ExpectRefusal({"--restarts", "3"}, "JOB is missing");
  ExpectRefusal({"a", "b", "c"}, "saw 'c', which is one argument too many");
}

TEST(Arguments, SaysWhatAnUnknownFlagProbablyMeans) {
  ExpectRefusal({"job", "--sett", "a=1"}, "there is no flag --sett; did you mean --set?");
  ExpectRefusal({"job", "-restarts", "1"}, "there is no flag -restarts; did you mean --restarts?");
  ExpectRefusal({"job", "--nonsense"}, "there is no flag --nonsense; `");
  ExpectRefusal({"job", "--\x01"}, "there is no flag --\\x01");
}

TEST(Arguments, NamesTheKeyOfTheJobThatAnUnknownFlagIsCalledLike) {
  ExpectRefusal({"job", "--steps", "10"}, "say --set train.steps=10");
  ExpectRefusal({"--steps", "10", "job"}, "say --set train.steps=10");
  ExpectRefusal({"job", "--steps"}, "say --set train.steps=VALUE");
  ExpectRefusal({"job", "--steps", "--free_ports"}, "say --set train.steps=VALUE");
  ExpectRefusal({"job", "--train.steps=10"}, "say --set train.steps=10");
  ExpectRefusal({"job", "--servers.0.address=a:1"}, "say --set servers.0.address=a:1");
  ExpectRefusal({"job", "--workers=4"}, "say --set workers.count=4");
  ExpectRefusal({"job", "--address=x"}, "say --set servers.0.address=x");
  const auto arguments = Arguments::Parse({"tern x", "", "", {}, {}}, {"--steps"});
  EXPECT_THAT(arguments.status().message(), testing::Not(HasSubstr("--set")))
      << "the command does not have it";
}

TEST(Arguments, RefusesInvalidAndTooLargeNumbers) {
  for (const char* text : {"x", "-1", "1x", "11", "99999999999999999999"}) {
    const auto arguments = Arguments::Parse(kCommand, {"job", Cat("--restarts=", text)});
    ASSERT_TRUE(arguments.ok());
    const auto number = arguments->NumberValue("restarts", 10);
    ASSERT_FALSE(number.ok()) << text;
    EXPECT_EQ(number.status().message(),
              Cat("--restarts: saw '", text, "'; allowed: a whole number, 0 to 10"));
  }
}

TEST(Arguments, HelpExplainsEverything) {
  for (const std::string flag : {"-h", "--help"}) {
    const auto arguments = Arguments::Parse(kCommand, {"--restarts", "x", flag, "--nonsense"});
    ASSERT_TRUE(arguments.ok()) << arguments.status().message();
    EXPECT_THAT(arguments->help_text(),
                AllOf(HasSubstr("tern try: try a job. Tries it.\n\n"
                                "Usage: tern try [OPTIONS] JOB [OUT]"),
                      HasSubstr("The job's file."), HasSubstr("--restarts N"),
                      HasSubstr("How often. Default: 7."), HasSubstr("--set KEY=VALUE")));
  }
}

}  // namespace
}  // namespace tern::setup
