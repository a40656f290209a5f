// The functions of levels.h in scalar code.
#include <algorithm>
#include <cmath>

#include "kernels/codes/levels.h"
#include "kernels/codes/qsgd_math.h"
#include "kernels/codes/ternary.h"

namespace tern::kernels {

int LevelOf(float g, const LevelScale& scale, const NoiseKey& key, uint64_t element) {
  if (!(scale.norm > 0)) return 0;
  const float magnitude = std::min({std::fabs(g), scale.clip, scale.norm});
  const QsgdBucket bucket{scale.norm, scale.bits, static_cast<double>(LargestLevel(scale.bits))};
  const uint32_t level = QsgdLevel(false, magnitude, bucket, NoiseDraw(key, element, 0),
                                   [&] { return NoiseDraw(key, element, 1); });
  return g < 0 ? -static_cast<int>(level) : static_cast<int>(level);
}

void EncodeLevelsRef(const float* g, size_t n, const LevelScale& scale, const NoiseKey& key,
                     uint64_t first, uint8_t* planes) {
  const size_t plane_bytes = PlaneBytes(n);
  std::fill_n(planes, static_cast<size_t>(scale.bits) * plane_bytes, uint8_t{0});
  for (size_t i = 0; i < n; ++i) {
    const auto code = static_cast<unsigned>(LevelOf(g[i], scale, key, first + i));
    for (int p = 0; p < scale.bits; ++p) {
      uint8_t& byte = planes[static_cast<size_t>(p) * plane_bytes + i / 8];
      byte = static_cast<uint8_t>(byte | (code >> p & 1) << (i % 8));
    }
  }
}

}  // namespace tern::kernels
