#include "common/base/ip_network.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

bool Contains(const std::string& network, const std::string& address) {
  const std::optional<IpNetwork> parsed = IpNetwork::Parse(network);
  EXPECT_TRUE(parsed.has_value()) << network;
  return parsed.has_value() && parsed->Contains(address);
}

TEST(IpNetwork, ContainsTheAddressesWithItsPrefix) {
  EXPECT_TRUE(Contains("10.0.0.0/24", "10.0.0.255"));
  EXPECT_FALSE(Contains("10.0.0.0/24", "10.0.1.0"));
  EXPECT_TRUE(Contains("10.0.0.128/25", "10.0.0.200"));
  EXPECT_FALSE(Contains("10.0.0.128/25", "10.0.0.127"));
  EXPECT_TRUE(Contains("10.0.0.7", "10.0.0.7"));
  EXPECT_FALSE(Contains("10.0.0.7", "10.0.0.6"));
  EXPECT_TRUE(Contains("0.0.0.0/0", "203.0.113.9"));
  EXPECT_FALSE(Contains("0.0.0.0/0", "2001:db8::1"));
  EXPECT_TRUE(Contains("2001:db8::/33", "2001:db8:7fff::1"));
  EXPECT_FALSE(Contains("2001:db8::/33", "2001:db8:8000::1"));
  EXPECT_TRUE(Contains("::/0", "10.0.0.1"));
  EXPECT_TRUE(Contains("fe80::/10", "fe80::1%eth0"));
}

TEST(IpNetwork, KnowsAddressesOfIpv4ThatAreWrittenAsIpv6) {
  EXPECT_TRUE(Contains("10.0.0.0/24", "::ffff:10.0.0.9"));
  EXPECT_FALSE(Contains("10.0.0.0/24", "::ffff:10.0.1.9"));
}

TEST(IpNetwork, ContainsNothingThatIsNoAddress) {
  for (const char* text : {"", "node3", "10.0.0", "10.0.0.1:7500", "[::1]"})
    EXPECT_FALSE(Contains("::/0", text)) << text;
}

TEST(IpNetwork, IsNotParsedFromAnythingElse) {
  for (const char* text :
       {"", "/24", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/ 8", "10.0.0.0/8x",
        "10.0.0.1/24", "10.0.0.0/24/8", "node3/24", "::/129", "2001:db8::1/64", "fe80::1%eth0"})
    EXPECT_FALSE(IpNetwork::Parse(text).has_value()) << text;
}

}  // namespace
}  // namespace tern
