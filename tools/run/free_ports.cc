#include "tools/run/free_ports.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <set>

#include "common/base/text.h"
#include "common/net/address.h"

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

}  // namespace

Result<std::vector<std::string>> FreePortOverrides(const pb::Job& job) {
  constexpr uint16_t kFirstPort = 20000, kPortCount = 12000;
  std::random_device random;
  std::vector<std::string> overrides;
  std::set<uint16_t> taken_ports;
  for (int server = 0; server < job.servers_size(); ++server) {
    const Result<net::Address> address = net::ParseAddress(job.servers(server).address());
    if (!address.ok()) return address.status();
    if (!net::IsLoopback(address->host)) continue;
    const Result<std::vector<std::string>> hosts = net::Resolve(address->host);
    if (!hosts.ok()) return hosts.status();
    uint16_t port = 0;
    for (int attempt = 0; port == 0 && attempt < kPortCount; ++attempt) {
      const auto candidate_port = static_cast<uint16_t>(kFirstPort + random() % kPortCount);
      if (!taken_ports.contains(candidate_port) && CanBind(hosts->front(), candidate_port))
        port = candidate_port;
    }
    if (port == 0) {
      return Status(Code::kAddress,
                    Cat("--free_ports: found no free port from ", kFirstPort, " to ",
                        kFirstPort + kPortCount - 1, " on ", address->host));
    }
    taken_ports.insert(port);
    overrides.push_back(Cat("servers.", server, ".address=", net::ToString({address->host, port})));
    if (job.servers(server).data_ports_size() > 0)
      overrides.push_back(Cat("servers.", server, ".data_ports=[]"));
  }
  return overrides;
}

}  // namespace tern::tools
