#include "server/bind_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(BindAddress, ANameThatResolvesToLoopbackIsReported) {
  for (const char* bound : {"127.0.1.1", "127.0.0.1", "::1"}) {
    EXPECT_THAT(LoopbackWarning("node3", bound),
                AllOf(HasSubstr("\"node3\" resolves to "), HasSubstr(bound),
                      HasSubstr("/etc/hosts"), HasSubstr("bind_host")));
  }
}

TEST(BindAddress, LoopbackIsNotReportedWhereTheJobSaysSo) {
  for (const char* host : {"localhost", "LocalHost", "127.0.0.1", "127.0.1.1", "::1", "[::1]"})
    EXPECT_EQ(LoopbackWarning(host, host[0] == '1' ? host : "::1"), "") << host;
}

TEST(BindAddress, AnAddressOfANetworkIsNotReported) {
  EXPECT_EQ(LoopbackWarning("node3", "10.0.0.3"), "");
  EXPECT_EQ(LoopbackWarning("node3", "fd00::3"), "");
  EXPECT_EQ(LoopbackWarning("0.0.0.0", "0.0.0.0"), "");
}

}  // namespace
}  // namespace tern::server
