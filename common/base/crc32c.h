// CRC-32C (Castagnoli): reflected, polynomial 0x1EDC6F41, as iSCSI and TFRecord have it.
#pragma once

#include <cstdint>
#include <string_view>

namespace tern {

// 0xE3069283 of "123456789".
uint32_t Crc32c(std::string_view bytes);

}  // namespace tern
