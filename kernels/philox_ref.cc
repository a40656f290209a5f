#include "kernels/philox.h"

namespace tern::kernels {
namespace {

// The constants of the paper's table 2: multipliers, and Weyl increments of the key.
constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::array<uint32_t, 4> NoiseBlock(const NoiseKey& key, uint32_t block, uint8_t level) {
  const uint32_t place =
      uint32_t{static_cast<uint8_t>(key.stream)} << 24 | uint32_t{level} << 16 | uint32_t{key.rank};
  return Philox4x32({block, key.tensor, static_cast<uint32_t>(key.round), place},
                    {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
}

uint16_t Draw16(const NoiseKey& key, uint64_t element, uint8_t level) {
  const auto words = NoiseBlock(key, static_cast<uint32_t>(element / 8), level);
  const uint32_t word = words[element % 8 / 2];
  return static_cast<uint16_t>(element % 2 == 0 ? word : word >> 16);
}

uint32_t Draw32(const NoiseKey& key, uint64_t element) {
  return uint32_t{Draw16(key, element, 0)} << 16 | Draw16(key, element, 1);
}

}  // namespace tern::kernels
