#include "common/net/path.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "common/base/text.h"
#include "common/net/address.h"

namespace tern::net {
namespace {

// The address and the port of one end, as text.
Address EndOf(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(address, length, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  // An IPv4 address of a socket that also takes IPv6 addresses.
  constexpr std::string_view kMapped = "::ffff:";
  std::string_view number = host.data();
  if (number.starts_with(kMapped) && number.find('.') != number.npos)
    number.remove_prefix(kMapped.size());
  return {std::string(number), static_cast<uint16_t>(std::strtoul(port.data(), nullptr, 10))};
}

Address EndOf(int fd, int (*get_name)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  return get_name(fd, address, &length) == 0 ? EndOf(address, length) : Address{};
}

// The interface that has this address; "": none has.
std::string InterfaceOf(const std::string& host) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (EndOf(each->ifa_addr, length).host == host) return each->ifa_name;
  }
  return "";
}

}  // namespace

std::string DescribePath(int fd) {
  const Address local = EndOf(fd, &getsockname), peer = EndOf(fd, &getpeername);
  if (local.host.empty() || peer.host.empty()) return "";
  const std::string interface = InterfaceOf(local.host);
  return Cat(local.host, interface.empty() ? "" : " (" + interface + ")", " to ", ToString(peer));
}

}  // namespace tern::net
