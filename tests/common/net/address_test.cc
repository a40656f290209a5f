#include "common/net/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Address, ParsesPrintedAddresses) {
  for (const char* text :
       {"10.0.0.1:7000", "[::1]:0", "node7.example:65535", "*:80", "[fe80::1%eth0]:7000"}) {
    const auto address = ParseAddress(text);
    ASSERT_TRUE(address.ok()) << address.status().message();
    EXPECT_EQ(ToString(*address), text);
  }
  EXPECT_EQ(ParseAddress("[::1]:5")->host, "::1");
  EXPECT_EQ(ParseAddress("node7:5")->port, 5);
}

TEST(Address, RefusesInvalidAddresses) {
  for (const char* text : {"", "node7", ":7000", "node7:", "node7:70000", "node7:-1", "node7:+1",
                           "node7:0x10", "node7: 7", "::1:7000", "[::1]", "[::1:7000", "[]:7000",
                           "no de:7000", "tcp://a:7000", "a\n:7000", "node7:7000 "}) {
    const auto address = ParseAddress(text);
    EXPECT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.status().code(), Code::kAddress);
    EXPECT_THAT(address.status().message(), HasSubstr("HOST:PORT"));
  }
  EXPECT_FALSE(ParseAddress(std::string(300, 'a') + ":1").ok());
}

TEST(Address, ResolvesNumericAddressesToThemselves) {
  EXPECT_THAT(*Resolve("127.0.0.1"), ElementsAre("127.0.0.1"));
  EXPECT_THAT(*Resolve("[::1]"), ElementsAre("::1"));
  EXPECT_THAT(*Resolve("::1"), ElementsAre("::1"));
}

TEST(Address, ResolvesLocalhost) {
  const auto addresses = Resolve("localhost");
  ASSERT_TRUE(addresses.ok()) << addresses.status().message();
  for (const std::string& a : *addresses) EXPECT_TRUE(a == "127.0.0.1" || a == "::1") << a;
}

TEST(Address, ReportsAHostThatDoesNotResolve) {
  // The first label is longer than DNS allows, so resolving fails without a query.
  const std::string host = std::string(70, 'x') + ".invalid";
  const auto addresses = Resolve(host);
  ASSERT_FALSE(addresses.ok());
  EXPECT_EQ(addresses.status().code(), Code::kAddress);
  EXPECT_THAT(addresses.status().message(), HasSubstr("xxx.invalid\" does not resolve"));
}

TEST(Address, RecognizesLoopback) {
  for (const char* host :
       {"127.0.0.1", "127.9.8.7", "::1", "[::1]", "localhost", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host :
       {"10.0.0.1", "128.0.0.1", "0.0.0.0", "::", "*", "", "::ffff:10.0.0.1", "fe80::1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
  EXPECT_FALSE(IsLoopback(std::string(70, 'x') + ".invalid"));
}

}  // namespace
}  // namespace tern::net
