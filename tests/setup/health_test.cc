// The answers to a cluster manager's probes.
#include "setup/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::setup {
namespace {

using testing::HasSubstr;

TEST(Health, ADaemonIsAliveBeforeItIsReady) {
  const Health health("net thread");
  net::HttpRoutes routes;
  health.AddRoutes(&routes);
  EXPECT_EQ(routes["/healthz"]().status, 200u);
  EXPECT_EQ(routes["/readyz"]().status, 503u);
  EXPECT_EQ(routes["/readyz"]().body, "waiting for its first turn\n");
}

TEST(Health, SaysForWhomADaemonWaits) {
  Health health("net thread");
  net::HttpRoutes routes;
  health.AddRoutes(&routes);
  health.OnTurn(Now(), "server shard 1");
  EXPECT_EQ(routes["/readyz"]().status, 503u);
  EXPECT_EQ(routes["/readyz"]().body, "waiting for server shard 1\n");
  health.OnTurn(Now(), "");
  EXPECT_EQ(routes["/readyz"]().status, 200u);
  EXPECT_EQ(routes["/healthz"]().status, 200u);
}

TEST(Health, AThreadThatDoesNotTurnIsNotAlive) {
  Health health("control thread");
  net::HttpRoutes routes;
  health.AddRoutes(&routes);
  health.OnTurn(Now() - 2 * Health::kHealthyAge, "");
  EXPECT_EQ(routes["/healthz"]().status, 503u);
  EXPECT_THAT(routes["/healthz"]().body, HasSubstr("the control thread has not turned for 20"));
}

}  // namespace
}  // namespace tern::setup
