#include "tools/launch/placement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/text.h"

namespace tern::tools {
namespace {

// The number of the host that has one of these addresses; hosts.size(): none has.
size_t HostWithAddress(const std::vector<std::string>& addresses,
                       const std::vector<ReachedHost>& hosts) {
  for (size_t host = 0; host < hosts.size(); ++host) {
    for (const std::string& own : hosts[host].addresses) {
      if (std::count(addresses.begin(), addresses.end(), own) > 0) return host;
    }
  }
  return hosts.size();
}

}  // namespace

uint32_t NumSlots(const std::vector<Host>& hosts) {
  uint32_t num_slots = 0;
  for (const Host& host : hosts) num_slots += host.slots;
  return num_slots;
}

Result<std::vector<size_t>> PlaceWorkers(const std::vector<Host>& hosts, uint32_t num_workers) {
  std::vector<size_t> host_of_rank;
  for (size_t host = 0; host < hosts.size(); ++host) {
    for (uint32_t slot = 0; slot < hosts[host].slots && host_of_rank.size() < num_workers; ++slot)
      host_of_rank.push_back(host);
  }
  if (host_of_rank.size() == num_workers) return host_of_rank;
  return Status(Code::kUsage,
                Cat("saw ", NumSlots(hosts), " slots on ", hosts.size(), " hosts for ", num_workers,
                    " workers; give a host more slots, as in node0:2, or -n fewer "
                    "workers"));
}

std::vector<size_t> PlaceShards(size_t num_hosts, uint32_t num_shards) {
  std::vector<size_t> host_of_shard;
  for (uint32_t shard = 0; shard < num_shards; ++shard) host_of_shard.push_back(shard % num_hosts);
  return host_of_shard;
}

Result<std::vector<size_t>> PlaceShardsByAddress(const pb::Job& job,
                                                 const std::vector<ReachedHost>& hosts) {
  std::vector<size_t> host_of_shard;
  for (int shard = 0; shard < job.servers_size(); ++shard) {
    const Result<net::Address> address = net::ParseAddress(job.servers(shard).address());
    if (!address.ok()) return address.status();
    const auto named = std::find_if(hosts.begin(), hosts.end(), [&](const ReachedHost& host) {
      return WithoutUser(host.name) == address->host;
    });
    auto number = static_cast<size_t>(named - hosts.begin());
    if (named == hosts.end()) {
      const Result<std::vector<std::string>> addresses = net::Resolve(address->host);
      if (addresses.ok()) number = HostWithAddress(*addresses, hosts);
    }
    if (number == hosts.size()) {
      return Status(Code::kUsage,
                    Cat("servers[", shard, "].address: saw ", job.servers(shard).address(),
                        ", which is none of the hosts; add that host, or give --servers N, so "
                        "that the shards are on the hosts that you name"));
    }
    host_of_shard.push_back(number);
  }
  return host_of_shard;
}

Status SetServers(const std::vector<net::Address>& addresses, pb::Job* job) {
  const auto num_shards = static_cast<int>(addresses.size());
  const int num_own = job->servers_size();
  const pb::Server last = *job->servers().rbegin();
  std::map<std::pair<std::string, uint32_t>, int> shard_of_port;
  while (job->servers_size() < num_shards) *job->add_servers() = last;
  while (job->servers_size() > num_shards) job->mutable_servers()->RemoveLast();
  for (int shard = 0; shard < num_shards; ++shard) {
    const net::Address& address = addresses[static_cast<size_t>(shard)];
    pb::Server* const server = job->mutable_servers(shard);
    server->set_address(net::ToString(address));
    // It belonged to the job's own loopback address.
    if (!net::IsLoopback(address.host) && net::IsLoopback(server->bind_host()))
      server->clear_bind_host();
    for (const uint32_t port : server->data_ports()) {
      const auto [taken, is_new] = shard_of_port.try_emplace({address.host, port}, shard);
      if (is_new) continue;
      return Status(Code::kUsage,
                    Cat("servers[", std::min(shard, num_own - 1), "].data_ports: saw ", port,
                        " for shard ", shard, " on ", address.host, ", where shard ", taken->second,
                        " has that port; give each shard data_ports of its own, or none, or "
                        "--servers with at most as many shards as there are hosts"));
    }
  }
  return Ok();
}

bool HasOwnServers(const pb::Job& job) {
  return std::any_of(job.servers().begin(), job.servers().end(), [](const pb::Server& server) {
    const Result<net::Address> address = net::ParseAddress(server.address());
    return address.ok() && !net::IsLoopback(address->host);
  });
}

}  // namespace tern::tools
