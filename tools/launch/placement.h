// Which host of `tern launch` has which members of the job.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/net/address.h"
#include "proto/job.pb.h"
#include "tools/launch/host_list.h"

namespace tern::tools {

// The slots of all hosts.
uint32_t NumSlots(const std::vector<Host>& hosts);

// The host of each worker, by rank, as its number in `hosts`: each host's slots are filled before
// the next one's. kUsage if there are more workers than slots.
Result<std::vector<size_t>> PlaceWorkers(const std::vector<Host>& hosts, uint32_t num_workers);

// The host of each of `num_shards` shards: one a host in their order, then a second one a host, and
// so on.
std::vector<size_t> PlaceShards(size_t num_hosts, uint32_t num_shards);

// What is known of a host once it has been reached.
struct ReachedHost {
  std::string name;                    // of `Host`
  std::vector<std::string> addresses;  // all, numeric
};
// The host of each shard of a job that says itself where its shards are: the host whose name the
// shard's address has, or else the one that has that address itself. May query name servers.
// kUsage if there is none.
Result<std::vector<size_t>> PlaceShardsByAddress(const pb::Job& job,
                                                 const std::vector<ReachedHost>& hosts);

// Gives the job a shard for each of these addresses, in place of its own. As with TERN_SERVERS, a
// shard has the other keys of the job's shard with its number or, where the job has fewer, of its
// last one. kUsage if two shards on one host would have one of data_ports.
Status SetServers(const std::vector<net::Address>& addresses, pb::Job* job);

// Whether the job says itself where its shards are: not all of its addresses are loopback ones.
bool HasOwnServers(const pb::Job& job);

}  // namespace tern::tools
