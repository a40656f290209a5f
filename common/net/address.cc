#include "common/net/address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "common/base/text.h"

namespace tern::net {
namespace {

constexpr size_t kMaxHostBytes = 255;  // the longest name in DNS

Status BadAddressError(std::string_view text, const std::string& reason) {
  return Status(Code::kAddress,
                Cat("\"", Printable(text), "\" is not an address: ", reason,
                    "; write HOST:PORT, as 10.0.0.1:7000, [::1]:7000 or node7:7000"));
}

std::string WithoutBrackets(const std::string& host) {
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return has_brackets ? host.substr(1, host.size() - 2) : host;
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Calls getaddrinfo with `flags` (AI_...) and returns its error code; 0: *list has the addresses.
// Does not query name servers if `host` is a numeric address.
int LookUpHost(const std::string& host, int flags, AddressList* list) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* first_address = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &first_address);
  if (error == 0) list->reset(first_address);
  return error;
}

// The address as a number; "" if that is not possible.
std::string NumberText(const addrinfo& address) {
  std::array<char, NI_MAXHOST> text{};
  const int error = getnameinfo(address.ai_addr, address.ai_addrlen, text.data(), text.size(),
                                nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "";
}

bool IsLoopbackAddress(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  if (address->sa_family != AF_INET6) return false;
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  if (IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr)) return true;
  return IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == 127;
}

}  // namespace

Result<Address> ParseAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return BadAddressError(text, "it has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  if (!host.empty() && host.front() == '[') {
    if (host.back() != ']' || host.size() < 3) return BadAddressError(text, "its [ has no ]");
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return BadAddressError(text, "an IPv6 address needs brackets");
  }
  if (host.empty()) return BadAddressError(text, "it has no host");
  if (host.size() > kMaxHostBytes)
    return BadAddressError(text, "its host is longer than 255 characters");
  const auto is_invalid = [](unsigned char c) {
    return c <= 0x20 || c >= 0x7f || c == '/' || c == '[';
  };
  if (std::any_of(host.begin(), host.end(), is_invalid)) {
    return BadAddressError(text, "its host has invalid characters");
  }
  uint16_t port = 0;
  const auto [end, error] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc() || end != port_text.data() + port_text.size()) {
    return BadAddressError(text, "its port is not a number from 0 to 65535");
  }
  return Address{std::string(host), port};
}

std::string ToString(const Address& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  std::string text = is_ipv6 ? "[" : "";
  return text.append(address.host)
      .append(is_ipv6 ? "]:" : ":")
      .append(std::to_string(address.port));
}

Result<std::vector<std::string>> Resolve(const std::string& host) {
  const std::string name = WithoutBrackets(host);
  AddressList list(nullptr, &freeaddrinfo);
  int error = LookUpHost(name, AI_NUMERICHOST, &list);
  if (error != 0) error = LookUpHost(name, AI_ADDRCONFIG, &list);
  // AI_ADDRCONFIG ignores loopback interfaces, so a machine with no other interface needs another
  // lookup without that flag.
  if (error != 0) error = LookUpHost(name, 0, &list);
  if (error != 0) {
    const char* reason = error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error);
    return Status(Code::kAddress, Cat("the host \"", Printable(host), "\" does not resolve: ",
                                      reason, "; check its spelling, DNS and /etc/hosts"));
  }
  std::vector<std::string> addresses;
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    const std::string number = NumberText(*a);
    if (!number.empty() && std::find(addresses.begin(), addresses.end(), number) == addresses.end())
      addresses.push_back(number);
  }
  if (addresses.empty()) {
    return Status(Code::kAddress, Cat("the host \"", Printable(host), "\" has no address"));
  }
  return addresses;
}

std::optional<std::string> NumericAddress(const std::string& host) {
  AddressList list(nullptr, &freeaddrinfo);
  if (LookUpHost(WithoutBrackets(host), AI_NUMERICHOST, &list) != 0) return std::nullopt;
  return NumberText(*list);
}

bool IsLoopback(const std::string& host) {
  const std::string name = WithoutBrackets(host);
  AddressList list(nullptr, &freeaddrinfo);
  int error = LookUpHost(name, AI_NUMERICHOST, &list);
  if (error != 0) error = LookUpHost(name, 0, &list);
  if (error != 0) return false;
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    if (!IsLoopbackAddress(a->ai_addr)) return false;
  }
  return true;
}

}  // namespace tern::net
