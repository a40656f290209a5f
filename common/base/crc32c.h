// CRC-32C (Castagnoli): reflected, polynomial 0x1EDC6F41, as in iSCSI and TFRecord.
#pragma once

#include <cstdint>
#include <string_view>

namespace tern {

// Returns the checksum of `bytes`. For example, Crc32c("123456789") is 0xE3069283.
uint32_t Crc32c(std::string_view bytes);

}  // namespace tern
