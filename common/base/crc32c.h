// CRC-32C (Castagnoli): reflected, polynomial 0x1EDC6F41, as in iSCSI and TFRecord.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tern {

// Returns the checksum of `bytes`. For example, Crc32c("123456789") is 0xE3069283.
uint32_t Crc32c(std::string_view bytes);
// Returns the checksum of other bytes, whose checksum is `crc`, followed by `bytes`. The checksum
// of no bytes is 0.
uint32_t ExtendCrc32c(uint32_t crc, std::span<const uint8_t> bytes);

}  // namespace tern
