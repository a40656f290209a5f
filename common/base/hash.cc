#include "common/base/hash.h"

#include <sodium.h>

#include <array>
#include <cstdio>

namespace tern {

uint64_t Digest(std::span<const uint8_t> bytes) {
  std::array<uint8_t, crypto_generichash_BYTES_MIN> digest_bytes;
  crypto_generichash(digest_bytes.data(), digest_bytes.size(), bytes.data(), bytes.size(), nullptr,
                     0);
  uint64_t digest = 0;
  for (int i = 7; i >= 0; --i) digest = digest << 8 | digest_bytes[i];  // little-endian
  return digest;
}

uint64_t Digest(std::string_view text) {
  return Digest(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

std::string Hex(uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(digest));
  return text;
}

}  // namespace tern
