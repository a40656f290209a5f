#include "common/net/origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "common/base/text.h"

namespace tern::net {
namespace {

constexpr size_t kIpv6PrefixBytes = 8;

std::string OriginOf(const in_addr& address) {
  uint32_t host = ntohl(address.s_addr);
  if (host >> 24 == 127) host = INADDR_LOOPBACK;
  return std::string(reinterpret_cast<const char*>(&host), sizeof host);
}

std::string OriginOf(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    in_addr ipv4;
    std::memcpy(&ipv4, address.s6_addr + 12, sizeof ipv4);
    return OriginOf(ipv4);
  }
  return std::string(reinterpret_cast<const char*>(address.s6_addr), kIpv6PrefixBytes);
}

}  // namespace

std::string OriginOf(const std::string& address) {
  in_addr ipv4;
  if (inet_pton(AF_INET, address.c_str(), &ipv4) == 1) return OriginOf(ipv4);
  // An address of one link has its interface behind a percent sign.
  in6_addr ipv6;
  if (inet_pton(AF_INET6, address.substr(0, address.find('%')).c_str(), &ipv6) == 1)
    return OriginOf(ipv6);
  return address;
}

std::string OriginText(const std::string& origin) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (uint32_t host; origin.size() == sizeof host) {
    std::memcpy(&host, origin.data(), sizeof host);
    host = htonl(host);
    return inet_ntop(AF_INET, &host, text.data(), text.size());
  }
  if (origin.size() != kIpv6PrefixBytes) return Printable(origin);
  in6_addr ipv6{};
  std::memcpy(ipv6.s6_addr, origin.data(), kIpv6PrefixBytes);
  return inet_ntop(AF_INET6, &ipv6, text.data(), text.size()) + std::string("/64");
}

std::string OriginOfPeer(int fd) {
  sockaddr_storage peer{};
  socklen_t peer_bytes = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0) return "";
  if (peer.ss_family == AF_INET) return OriginOf(reinterpret_cast<sockaddr_in*>(&peer)->sin_addr);
  if (peer.ss_family == AF_INET6)
    return OriginOf(reinterpret_cast<sockaddr_in6*>(&peer)->sin6_addr);
  return "";
}

}  // namespace tern::net
