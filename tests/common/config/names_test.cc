// Tests of helpers of common/config: the nearest name to a misspelled one, addresses, printable
// text.
#include <gmock/gmock.h>

#include <string>

#include "common/config/address.h"
#include "common/config/faults.h"
#include "common/config/nearest.h"
#include "common/config/utf8.h"

namespace tern::config {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsSubstitutionsAndSwaps) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("abc", ""), 3u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("abc", "abc"), 0u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("stesp", "steps"), 1u);
  EXPECT_EQ(EditDistance("ab", "ba"), 1u);
}

TEST(NearestName, IgnoresNamesThatAreTooDifferent) {
  EXPECT_EQ(NearestName("stesp", {"seed", "steps", "epochs"}), "steps");
  EXPECT_EQ(NearestName("xyzzy", {"seed", "steps", "epochs"}), "");
  EXPECT_EQ(NearestName("ab", {"xy"}), "");
  EXPECT_EQ(NearestName(std::string(100000, 'a'), {"steps"}), "");
  EXPECT_EQ(NearestName("steps", {}), "");
}

TEST(NearestName, IgnoresNamesThatDifferOnlyInNumbers) {
  const std::vector<std::string> known = {"lenet", "resnet18_v2", "resnet32", "resnet110"};
  EXPECT_EQ(NearestName("resnet34", known), "");
  EXPECT_EQ(NearestName("resnet18", known), "resnet18_v2");
  EXPECT_EQ(NearestName("resent32", known), "resnet32");
  EXPECT_EQ(NearestName("lenet5", known), "lenet") << "only one of the two has a number";
}

TEST(Address, SplitsHostAndPort) {
  const auto ipv6_address = ParseAddress("[FE80::1]:65535");
  ASSERT_TRUE(ipv6_address);
  EXPECT_EQ(ipv6_address->host, "fe80::1");
  EXPECT_EQ(ipv6_address->port, 65535);
  const auto address_with_name = ParseAddress("Node-3.lab:1");
  ASSERT_TRUE(address_with_name);
  EXPECT_EQ(address_with_name->host, "node-3.lab");
  for (const char* text :
       {"",        ":",     "a:",      ":1",    "a:0",          "a:01",   "a:-1",        "a:+1",
        "a:1 ",    "a b:1", "a:65536", "[::1]", "::1:5",        "[::1:5", "[1.2.3.4]:5", "[node]:5",
        "1.2.3:5", "-a:5",  ".a:5",    "a/b:5", "a:99999999999"}) {
    EXPECT_FALSE(ParseAddress(text)) << text;
  }
}

TEST(Address, RecognizesLoopbackAndWildcard) {
  for (const char* host : {"127.0.0.1", "127.255.0.9", "::1", "localhost", "0:0:0:0:0:0:0:1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host :
       {"128.0.0.1", "0.0.0.0", "::", "::2", "node", "127.0.0.1.lab", "localhost.lab"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
  EXPECT_TRUE(IsWildcard("0.0.0.0") && IsWildcard("::") && IsWildcard("*"));
  EXPECT_FALSE(IsWildcard("127.0.0.1") || IsWildcard("::1") || IsWildcard("node"));
}

TEST(Utf8, RecognizesPrintableText) {
  EXPECT_TRUE(IsPrintable("a \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"));
  for (const char* text : {"\x01", "\x7f", "\t", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80",
                           "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80", "\x80", "\xc3",
                           "\xe2\x82", "\xc2\x85", "\xe2\x80\xa8", "\xef\xbf\xbf"}) {
    EXPECT_FALSE(IsPrintable(text));
  }
}

TEST(Excerpt, StaysShortAndOnOneLine) {
  EXPECT_EQ(Excerpt("a\nb\x1b[31m\xff"), "a\\nb\\x1b[31m\\xff");
  EXPECT_LE(Excerpt(std::string(1000, 'x')).size(), 64u);
}

}  // namespace
}  // namespace tern::config
