// 64-bit BLAKE2b digests (libsodium), equal on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tern {

uint64_t Digest(std::span<const uint8_t> bytes);
uint64_t Digest(std::string_view text);
// Formats a digest as 16 hexadecimal digits, for logs and messages: "f00dcafe01234567".
std::string Hex(uint64_t digest);

}  // namespace tern
