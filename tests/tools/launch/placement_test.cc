#include "tools/launch/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

pb::Job JobWithServers(const std::vector<std::string>& addresses) {
  pb::Job job;
  for (const std::string& address : addresses) job.add_servers()->set_address(address);
  return job;
}

TEST(Placement, WorkersFillTheSlotsInOrder) {
  const std::vector<Host> hosts = {{"a", 2}, {"b", 0}, {"c", 3}};
  EXPECT_EQ(NumSlots(hosts), 5u);
  EXPECT_THAT(*PlaceWorkers(hosts, 5), ElementsAre(0, 0, 2, 2, 2));
  EXPECT_THAT(*PlaceWorkers(hosts, 3), ElementsAre(0, 0, 2));
  const auto too_many = PlaceWorkers(hosts, 6);
  EXPECT_EQ(too_many.status().code(), Code::kUsage);
  EXPECT_THAT(too_many.status().message(), HasSubstr("saw 5 slots on 3 hosts for 6 workers"));
}

TEST(Placement, ShardsTakeHostsInTurn) {
  EXPECT_THAT(PlaceShards(3, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(PlaceShards(3, 1), ElementsAre(0));
  EXPECT_THAT(PlaceShards(2, 5), ElementsAre(0, 1, 0, 1, 0));
}

TEST(Placement, AShardIsWhereItsAddressIs) {
  const std::vector<ReachedHost> hosts = {{"me@node0", {"192.0.2.1", "10.0.0.1"}},
                                          {"node1", {"192.0.2.2", "10.0.0.2"}}};
  EXPECT_THAT(*PlaceShardsByAddress(JobWithServers({"10.0.0.2:1", "node0:1"}), hosts),
              ElementsAre(1, 0));
  const auto unknown = PlaceShardsByAddress(JobWithServers({"10.0.0.1:1", "10.0.0.3:7"}), hosts);
  EXPECT_EQ(unknown.status().code(), Code::kUsage);
  EXPECT_THAT(unknown.status().message(), HasSubstr("servers[1].address: saw 10.0.0.3:7"));
}

TEST(Placement, OnlyOtherAddressesThanLoopbackSayWhereShardsAre) {
  EXPECT_FALSE(HasOwnServers(JobWithServers({"127.0.0.1:1", "[::1]:2"})));
  EXPECT_TRUE(HasOwnServers(JobWithServers({"127.0.0.1:1", "10.0.0.2:1"})));
}

}  // namespace
}  // namespace tern::tools
