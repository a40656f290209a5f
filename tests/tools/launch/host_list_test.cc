#include "tools/launch/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "common/base/text.h"
#include "setup/setup.h"

namespace tern::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HostList, HasNamesAddressesAndSlots) {
  const auto hosts = ParseHosts("node0:2,user@node1,10.0.0.3:4,[fd00::1]:0,me@[::1]");
  ASSERT_TRUE(hosts.ok()) << hosts.status().message();
  EXPECT_THAT(*hosts, ElementsAre(Host{"node0", 2}, Host{"user@node1", 1}, Host{"10.0.0.3", 4},
                                  Host{"fd00::1", 0}, Host{"me@::1", 1}));
  EXPECT_EQ(WithoutUser("me@::1"), "::1");
  EXPECT_EQ(WithoutUser("node0"), "node0");
}

TEST(HostList, AHostThatIsThereTwiceHasTheSlotsOfBoth) {
  EXPECT_THAT(*ParseHosts("a,b:2,a:3"), ElementsAre(Host{"a", 4}, Host{"b", 2}));
}

TEST(HostList, RefusesWhatIsNoHost) {
  for (const char* text :
       {"", "a,", ",a", "a:", "a:x", "a:-1", "a:99999999", "-oProxyCommand=x", "a b", "a;b", "$(a)",
        "::1", "a:1:2", "[::1", "x[::1]", "[::1]2", "user@", "a'b", "[]:1"}) {
    const auto hosts = ParseHosts(text);
    EXPECT_EQ(hosts.status().code(), Code::kUsage) << text;
    EXPECT_THAT(hosts.status().message(), HasSubstr("-H: saw '")) << text;
  }
}

TEST(HostList, AFileHasBothSpellingsAndComments) {
  const auto hosts = ParseHostfile(
      "# the cluster\n\nnode0 slots=2\n  node1:3  # the big one\r\n[fd00::1]\nnode0\n", "hosts");
  ASSERT_TRUE(hosts.ok()) << hosts.status().message();
  EXPECT_THAT(*hosts, ElementsAre(Host{"node0", 3}, Host{"node1", 3}, Host{"fd00::1", 1}));
}

TEST(HostList, AFileMayBeginWithAByteOrderMark) {
  for (const char* text :
       {"\xef\xbb\xbfnode0 slots=2\r\nnode1\r\n", "\xef\xbb\xbf# the cluster\nnode0:2\nnode1\n"}) {
    const auto hosts = ParseHostfile(text, "hosts");
    ASSERT_TRUE(hosts.ok()) << hosts.status().message();
    EXPECT_THAT(*hosts, ElementsAre(Host{"node0", 2}, Host{"node1", 1}));
  }
}

TEST(HostList, AFilesErrorNamesTheLine) {
  EXPECT_THAT(ParseHostfile("a\nb slots=x\n", "hosts").status().message(),
              HasSubstr("hosts:2: saw 'slots=x' behind b"));
  EXPECT_THAT(ParseHostfile("a:2 slots=2\n", "hosts").status().message(), HasSubstr("hosts:1: "));
  EXPECT_THAT(ParseHostfile("a max_slots=2\n", "hosts").status().message(),
              HasSubstr("allowed there: slots=N"));
  EXPECT_THAT(ParseHostfile("\n-a\n", "hosts").status().message(), HasSubstr("hosts:2: saw '-a'"));
  EXPECT_THAT(ParseHostfile("# none\n", "hosts").status().message(), HasSubstr("saw no host"));
}

// A job takes only a number of workers that divides its batch.
TEST(HostList, OfTheManualFitsTheJobBesideIt) {
  std::ifstream manual("docs/HOSTS.md");
  const std::regex command("tern launch -H (\\S+) (configs/\\S+)");
  int num_commands = 0;
  for (std::string line; std::getline(manual, line);) {
    std::smatch words;
    if (!std::regex_match(line, words, command)) continue;
    ++num_commands;
    const auto hosts = ParseHosts(words[1]);
    ASSERT_TRUE(hosts.ok()) << hosts.status().message();
    uint32_t num_workers = 0;
    for (const Host& host : *hosts) num_workers += host.slots;
    const auto job = setup::LoadJob(words[2], {Cat("workers.count=", num_workers)});
    EXPECT_TRUE(job.ok()) << line << ": " << job.status().message();
  }
  EXPECT_GT(num_commands, 0);
}

}  // namespace
}  // namespace tern::tools
