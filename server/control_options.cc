#include "server/control_options.h"

#include <algorithm>
#include <optional>
#include <string>

#include "common/algorithm/elasticity.h"
#include "common/algorithm/facts.h"
#include "common/algorithm/ranks.h"
#include "common/config/key_digests.h"
#include "common/protocol/rounds/cells.h"

namespace tern::server {

size_t MaxConnectionsPerAddress(const pb::Job& job) {
  uint32_t sockets = 1;
  for (const pb::Server& server : job.servers())
    sockets = std::max(sockets, 1 + server.data_sockets());
  const size_t daemons = algorithm::NumRanks(job) + static_cast<size_t>(job.servers_size());
  return std::max<size_t>(64, 2 * sockets * daemons);
}

std::vector<IpNetwork> AllowedNetworks(const pb::Job& job) {
  std::vector<IpNetwork> networks;
  for (const std::string& text : job.allow()) {
    if (const std::optional<IpNetwork> network = IpNetwork::Parse(text); network.has_value())
      networks.push_back(*network);
  }
  return networks;
}

protocol::ControlOptions ControlOptionsOf(const setup::Setup& setup, uint32_t shard,
                                          uint64_t incarnation) {
  protocol::ControlOptions options;
  options.shard = shard;
  options.shards = static_cast<uint32_t>(setup.plan.data_lanes.size());
  options.workers = setup.plan.workers;
  options.incarnation = incarnation;
  options.expected_hello = setup.hello;
  options.keys = config::SharedKeys();
  if (setup.job.train().has_steps()) options.steps = setup.job.train().steps();
  options.timings = setup.timings;
  options.elasticity = algorithm::Elasticity::FromJob(setup.job);
  const algorithm::Facts facts = algorithm::FactsOf(setup.job);
  options.window = facts.window;
  if (facts.has_rounds)
    options.last_checkpoint_step = [facts](uint64_t steps) { return facts.LastRoundEnd(steps); };
  options.workers_hold_state = facts.has_rounds;
  options.begins_from_shards = setup.plan.is_central && setup.plan.has_rounds;
  options.can_resume = setup.job.checkpoints().every_steps() != 0;
  options.shard_keeps_state = protocol::ShardsThatKeepState(setup.plan);
  return options;
}

}  // namespace tern::server
