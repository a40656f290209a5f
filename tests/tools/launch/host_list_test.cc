#include "tools/launch/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(HostList, AFilesErrorNamesTheLine) {
  EXPECT_THAT(ParseHostfile("a\nb slots=x\n", "hosts").status().message(),
              HasSubstr("hosts:2: saw 'slots=x' behind b"));
  EXPECT_THAT(ParseHostfile("a:2 slots=2\n", "hosts").status().message(), HasSubstr("hosts:1: "));
  EXPECT_THAT(ParseHostfile("a max_slots=2\n", "hosts").status().message(),
              HasSubstr("allowed there: slots=N"));
  EXPECT_THAT(ParseHostfile("\n-a\n", "hosts").status().message(), HasSubstr("hosts:2: saw '-a'"));
  EXPECT_THAT(ParseHostfile("# none\n", "hosts").status().message(), HasSubstr("saw no host"));
}

}  // namespace
}  // namespace tern::tools
