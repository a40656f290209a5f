// The functions of philox.h.
#include "kernels/codes/philox.h"
#include "kernels/codes/philox_math.h"

namespace tern::kernels {
namespace {

std::array<uint32_t, 4> AsArray(const PhiloxWords& words) {
  return {words.w[0], words.w[1], words.w[2], words.w[3]};
}

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  return AsArray(PhiloxBlock({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]));
}

std::array<uint32_t, 4> NoiseBlock(const NoiseKey& key, uint32_t block, uint8_t level) {
  return AsArray(NoiseWords(key, block, level));
}

uint16_t Draw16(const NoiseKey& key, uint64_t element, uint8_t level) {
  return static_cast<uint16_t>(NoiseDraw(key, element, level));
}

uint32_t Draw32(const NoiseKey& key, uint64_t element) {
  return NoiseDraw(key, element, 0) << 16 | NoiseDraw(key, element, 1);
}

}  // namespace tern::kernels
