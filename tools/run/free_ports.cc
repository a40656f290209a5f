#include "tools/run/free_ports.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>

#include "common/algorithm/ranks.h"
#include "common/base/text.h"
#include "common/net/address.h"
#include "setup/metrics_routes.h"

namespace tern::tools {
namespace {

bool CanBind(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* addresses = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &addresses) != 0)
    return false;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> address_owner(addresses, &freeaddrinfo);
  const int fd = socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool is_bound = fd >= 0 && bind(fd, addresses->ai_addr, addresses->ai_addrlen) == 0;
  if (fd >= 0) close(fd);
  return is_bound;
}

// Whether all metrics ports of the job's daemons are free, and none is of `servers`, if
// metrics.port is `base`.
bool AreMetricsPortsFree(const pb::Job& job, const std::string& host, uint16_t base,
                         const std::set<uint16_t>& servers) {
  pb::Metrics metrics = job.metrics();
  metrics.set_port(base);
  const auto is_free = [&](uint16_t port) {
    return !servers.contains(port) && CanBind(host, port);
  };
  bool are_free = true;
  for (uint32_t s = 0; are_free && s < static_cast<uint32_t>(job.servers_size()); ++s)
    are_free = is_free(setup::ServerMetricsPort(metrics, s));
  for (uint32_t rank = 0; are_free && rank < algorithm::NumRanks(job); ++rank)
    are_free = is_free(setup::WorkerMetricsPort(metrics, rank));
  return are_free;
}

// If metrics ports of the job are taken, or are among `servers`, the ports of its servers, finds
// others.
Status AddMetricsPort(const pb::Job& job, const std::set<uint16_t>& servers,
                      std::vector<std::string>* overrides) {
  if (job.metrics().port() == 0) return Ok();
  const Result<std::vector<std::string>> hosts = net::Resolve(job.metrics().host());
  if (!hosts.ok()) return Ok();  // The daemon that cannot listen says why.
  const std::string& host = hosts->front();
  if (AreMetricsPortsFree(job, host, static_cast<uint16_t>(job.metrics().port()), servers))
    return Ok();
  std::set<uint16_t> taken = servers;
  while (true) {
    const Result<uint16_t> base = FindFreePort(host, 0, 1, &taken);
    if (!base.ok()) return base.status();
    if (!AreMetricsPortsFree(job, host, *base, servers)) continue;
    overrides->push_back(Cat("metrics.port=", *base));
    return Ok();
  }
}

}  // namespace

Result<uint16_t> FindFreePort(const std::string& host, uint32_t searcher, uint32_t num_searchers,
                              std::set<uint16_t>* taken) {
  constexpr uint32_t kFirstPort = 20000, kPortCount = 12000;
  std::random_device random;
  for (uint32_t attempt = 0; attempt < kPortCount; ++attempt) {
    const uint32_t block = random() % std::max(1u, kPortCount / num_searchers);
    const auto port = static_cast<uint16_t>(kFirstPort + block * num_searchers + searcher);
    if (taken->contains(port) || !CanBind(host, port)) continue;
    taken->insert(port);
    return port;
  }
  return Status(Code::kAddress, Cat("found no free port from ", kFirstPort, " to ",
                                    kFirstPort + kPortCount - 1, " on ", host));
}

Result<std::vector<std::string>> FreePortOverrides(const pb::Job& job) {
  std::vector<std::string> overrides;
  std::set<uint16_t> taken_ports;
  for (int server = 0; server < job.servers_size(); ++server) {
    const Result<net::Address> address = net::ParseAddress(job.servers(server).address());
    if (!address.ok()) return address.status();
    if (!net::IsLoopback(address->host)) {
      taken_ports.insert(address->port);
      for (const uint32_t port : job.servers(server).data_ports())
        taken_ports.insert(static_cast<uint16_t>(port));
      continue;
    }
    const Result<std::vector<std::string>> hosts = net::Resolve(address->host);
    if (!hosts.ok()) return hosts.status();
    const Result<uint16_t> port = FindFreePort(hosts->front(), 0, 1, &taken_ports);
    if (!port.ok()) return port.status().Within("--free_ports");
    overrides.push_back(
        Cat("servers.", server, ".address=", net::ToString({address->host, *port})));
    if (job.servers(server).data_ports_size() > 0)
      overrides.push_back(Cat("servers.", server, ".data_ports=[]"));
  }
  TERN_RETURN_IF_ERROR(AddMetricsPort(job, taken_ports, &overrides).Within("--free_ports"));
  return overrides;
}

}  // namespace tern::tools
