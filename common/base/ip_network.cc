#include "common/base/ip_network.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace tern {
namespace {

constexpr uint32_t kIpv4Bits = 32, kIpv6Bits = 128;

// The bytes of `bytes` with all bits from the bit `first` on cleared.
std::array<uint8_t, 16> WithoutBitsFrom(uint32_t first, std::array<uint8_t, 16> bytes) {
  for (uint32_t bit = first; bit < kIpv6Bits; ++bit)
    bytes[bit / 8] &= static_cast<uint8_t>(~(0x80U >> bit % 8));
  return bytes;
}

}  // namespace

std::optional<IpNetwork::Bytes> IpNetwork::ParseAddress(const std::string& text) {
  Bytes address{};
  if (inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), address.data()) == 1)
    return address;
  std::fill(address.begin() + 10, address.begin() + 12, uint8_t{0xff});
  if (inet_pton(AF_INET, text.c_str(), address.data() + 12) == 1) return address;
  return std::nullopt;
}

std::optional<IpNetwork> IpNetwork::Parse(const std::string& text) {
  const size_t slash = text.find('/');
  const std::string address_text = text.substr(0, slash);
  const std::optional<Bytes> address = ParseAddress(address_text);
  if (!address || address_text.find('%') != std::string::npos) return std::nullopt;
  const uint32_t max_bits = address_text.find(':') == std::string::npos ? kIpv4Bits : kIpv6Bits;
  uint32_t bits = max_bits;
  if (slash != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [parsed_end, error] = std::from_chars(text.data() + slash + 1, end, bits);
    if (error != std::errc() || parsed_end != end || bits > max_bits) return std::nullopt;
  }
  const uint32_t prefix_bits = bits + kIpv6Bits - max_bits;
  if (WithoutBitsFrom(prefix_bits, *address) != *address) return std::nullopt;
  return IpNetwork(*address, prefix_bits);
}

bool IpNetwork::Contains(const std::string& address) const {
  const std::optional<Bytes> bytes = ParseAddress(address);
  return bytes.has_value() && WithoutBitsFrom(prefix_bits_, *bytes) == address_;
}

}  // namespace tern
