#include "common/config/address.h"

#include <arpa/inet.h>

#include <cctype>
#include <charconv>

namespace tern::config {
namespace {

bool IsIpv4(const std::string& host, in_addr* address) {
  return inet_pton(AF_INET, host.c_str(), address) == 1;
}

// The address may have a zone: fe80::1%eth0.
bool IsIpv6(const std::string& host, in6_addr* address) {
  return inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), address) == 1;
}

// Whether `host` is a host name as in RFC 1123; underscores are allowed too, because they are
// common. A text of digits and dots alone is no name but a mistyped IPv4 address.
bool IsName(const std::string& host) {
  bool has_letter = false;
  for (const char c : host) {
    const bool is_letter = std::isalpha(static_cast<unsigned char>(c)) || c == '-' || c == '_';
    if (!is_letter && !std::isdigit(static_cast<unsigned char>(c)) && c != '.') return false;
    has_letter = has_letter || is_letter;
  }
  return has_letter && host.size() <= 253 && host.front() != '.' && host.front() != '-';
}

std::string ToLower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::optional<std::string> ParseHost(const std::string& text) {
  const std::string host = ToLower(text);
  in_addr ipv4;
  in6_addr ipv6;
  if (host == "*" || IsIpv4(host, &ipv4) || IsIpv6(host, &ipv6) || IsName(host)) return host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    const std::string host_without_brackets = host.substr(1, host.size() - 2);
    if (IsIpv6(host_without_brackets, &ipv6)) return host_without_brackets;
  }
  return std::nullopt;
}

std::optional<Address> ParseAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  const std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  Address address;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || address.port == 0 ||
      port[0] == '0') {
    return std::nullopt;
  }
  // An IPv6 literal needs brackets here, because ::1:7500 would be ambiguous.
  const bool has_brackets = !host.empty() && host.front() == '[';
  const std::optional<std::string> parsed_host = ParseHost(host);
  if (!parsed_host || (!has_brackets && parsed_host->find(':') != std::string::npos))
    return std::nullopt;
  address.host = *parsed_host;
  return address;
}

bool IsLoopback(const std::string& host) {
  in_addr ipv4;
  in6_addr ipv6;
  if (IsIpv4(host, &ipv4)) return ntohl(ipv4.s_addr) >> 24 == 127;
  if (IsIpv6(host, &ipv6)) return IN6_IS_ADDR_LOOPBACK(&ipv6);
  return host == "localhost";
}

bool IsWildcard(const std::string& host) {
  in_addr ipv4;
  in6_addr ipv6;
  if (IsIpv4(host, &ipv4)) return ipv4.s_addr == 0;
  if (IsIpv6(host, &ipv6)) return IN6_IS_ADDR_UNSPECIFIED(&ipv6);
  return host == "*";
}

}  // namespace tern::config
