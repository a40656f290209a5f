// Networks of IP addresses, as in "10.0.0.0/24" or "fd00::/64". Names are not resolved.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace tern {

class IpNetwork {
 public:
  // Parses ADDRESS/PREFIX, or an address, which is a network of its own. Nullopt for anything else,
  // and if the address has bits beyond the prefix ("10.0.0.1/24").
  static std::optional<IpNetwork> Parse(const std::string& text);
  // Whether a numeric address is in the network. An address of IPv4 may be written as one of IPv6
  // (::ffff:10.0.0.1), and an address of IPv6 may have a zone (fe80::1%eth0).
  bool Contains(const std::string& address) const;

 private:
  // An address of IPv6; one of IPv4 as ::ffff:a.b.c.d.
  using Bytes = std::array<uint8_t, 16>;
  static std::optional<Bytes> ParseAddress(const std::string& text);
  IpNetwork(const Bytes& address, uint32_t prefix_bits)
      : address_(address), prefix_bits_(prefix_bits) {}

  Bytes address_;
  uint32_t prefix_bits_;  // of 128
};

}  // namespace tern
