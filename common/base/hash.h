// 64-bit digests by BLAKE2b (libsodium). The same on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tern {

uint64_t Digest(std::span<const uint8_t> bytes);
uint64_t Digest(std::string_view text);
// "f00dcafe01234567": the form of digests in logs and messages.
std::string Hex(uint64_t digest);

}  // namespace tern
