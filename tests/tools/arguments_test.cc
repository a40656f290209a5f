#include "tools/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/text.h"

namespace tern::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<Flag> kFlags = {{"set"}, {"restarts"}, {"free_ports", false}};

Result<Arguments> ParseRunArguments(const std::vector<std::string>& args) {
  return Arguments::Parse(args, kFlags, "tern run JOB");
}

void ExpectUsageError(const std::vector<std::string>& args, const std::string& expected_message) {
  const auto arguments = ParseRunArguments(args);
  ASSERT_FALSE(arguments.ok()) << testing::PrintToString(args);
  EXPECT_EQ(arguments.status().code(), Code::kUsage);
  EXPECT_THAT(arguments.status().message(), HasSubstr(expected_message));
  EXPECT_THAT(arguments.status().message(), HasSubstr("usage: tern run JOB"));
}

TEST(Arguments, ReadsFlagsBeforeAndAfterPositionalArguments) {
  const auto arguments = ParseRunArguments(
      {"--set", "a=1", "job.yaml", "--free_ports", "--set=b=2", "-restarts", "3"});
  ASSERT_TRUE(arguments.ok()) << arguments.status().message();
  EXPECT_THAT(arguments->AllValues("set"), ElementsAre("a=1", "b=2"));
  EXPECT_THAT(arguments->positional(), ElementsAre("job.yaml"));
  EXPECT_TRUE(arguments->HasFlag("free_ports"));
  EXPECT_EQ(*arguments->NumberValue("restarts", 0, 10), 3u);
}

TEST(Arguments, MissingFlagsHaveTheirDefaults) {
  const auto arguments = ParseRunArguments({});
  ASSERT_TRUE(arguments.ok());
  EXPECT_FALSE(arguments->HasFlag("free_ports"));
  EXPECT_THAT(arguments->AllValues("set"), IsEmpty());
  EXPECT_EQ(arguments->LastValue("set", "x"), "x");
  EXPECT_EQ(*arguments->NumberValue("restarts", 7, 10), 7u);
}

TEST(Arguments, TwoDashesEndTheFlags) {
  const auto arguments = ParseRunArguments({"--", "--set"});
  ASSERT_TRUE(arguments.ok());
  EXPECT_THAT(arguments->positional(), ElementsAre("--set"));
}

TEST(Arguments, RefusesUnknownFlagsAndMissingOrUnexpectedValues) {
  ExpectUsageError({"--sett", "a=1"},
                   "there is no flag --sett; known flags: --set, --restarts, --free_ports");
  ExpectUsageError({"--set"}, "--set needs a value after it");
  ExpectUsageError({"--free_ports=yes"}, "--free_ports takes no value");
}

TEST(Arguments, RefusesInvalidAndTooLargeNumbers) {
  for (const char* text : {"", "x", "-1", "1x", "11", "99999999999999999999"}) {
    const auto arguments = ParseRunArguments({Cat("--restarts=", text)});
    ASSERT_TRUE(arguments.ok());
    const auto number = arguments->NumberValue("restarts", 0, 10);
    ASSERT_FALSE(number.ok()) << text;
    EXPECT_EQ(number.status().message(),
              Cat("--restarts: saw '", text, "'; allowed: a whole number, 0 to 10"));
  }
}

}  // namespace
}  // namespace tern::tools
