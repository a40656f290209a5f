#include "common/base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace tern {

uint32_t ExtendCrc32c(uint32_t crc, std::span<const uint8_t> bytes) {
  constexpr size_t kMaxBytes = 1 << 30;  // The library counts bytes by an int.
  while (!bytes.empty()) {
    const std::span<const uint8_t> part = bytes.first(std::min(bytes.size(), kMaxBytes));
    // The library does not write to the bytes. It expects and returns the inverted checksum.
    crc = ~crc32_iscsi(const_cast<uint8_t*>(part.data()), static_cast<int>(part.size()), ~crc);
    bytes = bytes.subspan(part.size());
  }
  return crc;
}

uint32_t Crc32c(std::string_view bytes) {
  return ExtendCrc32c(0, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace tern
