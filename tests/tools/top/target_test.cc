// Tests of the argument of `tern top` and `tern status`: a job, a URL, or HOST:PORT.
#include "tools/top/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/command_table.h"

namespace tern::tools {
namespace {

using testing::HasSubstr;

Result<Target> Read(const std::vector<std::string>& args) {
  const auto arguments = setup::Arguments::Parse(CommandCalled("tern status").def, args);
  if (!arguments.ok()) return arguments.status();
  return ReadTarget(*arguments);
}

TEST(Target, IsWhereAServerServesItsPage) {
  for (const std::string argument : {"http://10.0.0.1:7600/", "http://10.0.0.1:7600",
                                     "10.0.0.1:7600", "http://10.0.0.1:7600/status.json"}) {
    const Result<Target> target = Read({argument});
    ASSERT_TRUE(target.ok()) << argument << ": " << target.status().message();
    EXPECT_EQ(target->url, "http://10.0.0.1:7600/status.json") << argument;
  }
  EXPECT_EQ(Read({"[::1]:7600"})->url, "http://[::1]:7600/status.json");
}

TEST(Target, RefusesWhatIsNeitherAJobNorAnAddress) {
  EXPECT_EQ(Read({"https://10.0.0.1:7600/"}).status().code(), Code::kUsage);
  EXPECT_THAT(Read({"missing.yaml"}).status().message(), HasSubstr("missing.yaml"));
}

}  // namespace
}  // namespace tern::tools
