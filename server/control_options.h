// What a server shard's sockets and control plane need to know of the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/ip_network.h"
#include "common/protocol/members/control.h"
#include "proto/job.pb.h"
#include "setup/setup.h"

namespace tern::server {

// How many connections one address may have: at least as many as all daemons of the job need, if
// they run on one host, also while each replaces its connections.
size_t MaxConnectionsPerAddress(const pb::Job& job);

// The networks of the job's key `allow`; empty: any.
std::vector<IpNetwork> AllowedNetworks(const pb::Job& job);

// The options of this shard's control plane that follow from the job. The caller adds data_ports
// and the functions that find checkpoints and steps.
protocol::ControlOptions ControlOptionsOf(const setup::Setup& setup, uint32_t shard,
                                          uint64_t incarnation);

}  // namespace tern::server
