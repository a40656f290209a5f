#include "tools/launch/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/text.h"

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

TEST(Placement, ShardsGetOtherAddressesAndKeepAllOtherKeys) {
  pb::Job job = JobWithServers({"127.0.0.1:1", "127.0.0.1:2"});
  job.mutable_servers(1)->set_bind_host("0.0.0.0");
  job.mutable_servers(1)->set_data_sockets(2);
  job.mutable_servers(1)->add_data_ports(7501);
  job.mutable_servers(1)->add_data_ports(7502);
  job.mutable_servers(1)->set_send_mbit(25);
  pb::Job placed = job;
  EXPECT_TRUE(SetServers({{"10.0.0.1", 5}, {"10.0.0.2", 6}, {"10.0.0.3", 7}}, &placed).ok());
  ASSERT_EQ(placed.servers_size(), 3);
  for (int shard = 0; shard < 3; ++shard) {
    pb::Server expected = job.servers(std::min(shard, 1));
    expected.set_address(Cat("10.0.0.", shard + 1, ":", shard + 5));
    EXPECT_EQ(placed.servers(shard).SerializeAsString(), expected.SerializeAsString()) << shard;
  }
  EXPECT_TRUE(SetServers({{"::1", 5}}, &placed).ok());
  ASSERT_EQ(placed.servers_size(), 1);
  EXPECT_EQ(placed.servers(0).address(), "[::1]:5");
}

TEST(Placement, ShardsOfOneHostNeedDataPortsOfTheirOwn) {
  pb::Job job = JobWithServers({"127.0.0.1:1"});
  job.mutable_servers(0)->add_data_ports(7502);
  pb::Job placed = job;
  EXPECT_TRUE(SetServers({{"10.0.0.1", 5}, {"10.0.0.2", 6}}, &placed).ok());
  placed = job;
  const Status status = SetServers({{"10.0.0.1", 5}, {"10.0.0.1", 6}}, &placed);
  EXPECT_EQ(status.code(), Code::kUsage);
  EXPECT_THAT(status.message(),
              HasSubstr("servers[0].data_ports: saw 7502 for shard 1 on 10.0.0.1, where "
                        "shard 0 has that port"));
}

TEST(Placement, AShardWithAnAddressThatOthersReachDoesNotBindLoopback) {
  pb::Job job = JobWithServers({"127.0.0.1:1"});
  job.mutable_servers(0)->set_bind_host("127.0.0.1");
  EXPECT_TRUE(SetServers({{"127.0.0.2", 5}}, &job).ok());
  EXPECT_EQ(job.servers(0).bind_host(), "127.0.0.1");
  EXPECT_TRUE(SetServers({{"10.0.0.1", 5}}, &job).ok());
  EXPECT_FALSE(job.servers(0).has_bind_host());
}

TEST(Placement, OnlyOtherAddressesThanLoopbackSayWhereShardsAre) {
  EXPECT_FALSE(HasOwnServers(JobWithServers({"127.0.0.1:1", "[::1]:2"})));
  EXPECT_TRUE(HasOwnServers(JobWithServers({"127.0.0.1:1", "10.0.0.2:1"})));
}

}  // namespace
}  // namespace tern::tools
