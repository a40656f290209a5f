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
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) return false;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &freeaddrinfo);
  const int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound = fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0;
  if (fd >= 0) close(fd);
  return bound;
}

}  // namespace

Result<std::vector<std::string>> FreePortOverrides(const pb::Job& job) {
  constexpr uint16_t kFirst = 20000, kCount = 12000;
  std::random_device random;
  std::vector<std::string> overrides;
  std::set<uint16_t> taken;
  for (int s = 0; s < job.servers_size(); ++s) {
    const Result<net::Address> address = net::ParseAddress(job.servers(s).address());
    if (!address.ok()) return address.status();
    if (!net::IsLoopback(address->host)) continue;
    const Result<std::vector<std::string>> hosts = net::Resolve(address->host);
    if (!hosts.ok()) return hosts.status();
    uint16_t port = 0;
    for (int tries = 0; port == 0 && tries < kCount; ++tries) {
      const auto candidate = static_cast<uint16_t>(kFirst + random() % kCount);
      if (!taken.contains(candidate) && CanBind(hosts->front(), candidate)) port = candidate;
    }
    if (port == 0) {
      return Status(Code::kAddress, Cat("--free_ports: found no free port from ", kFirst, " to ",
                                        kFirst + kCount - 1, " on ", address->host));
    }
    taken.insert(port);
    overrides.push_back(Cat("servers.", s, ".address=", net::ToString({address->host, port})));
    if (job.servers(s).data_ports_size() > 0)
      overrides.push_back(Cat("servers.", s, ".data_ports=[]"));
  }
  return overrides;
}

}  // namespace tern::tools
