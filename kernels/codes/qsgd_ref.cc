// The levels of QSGD's buckets (qsgd.h) in scalar code.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/codes/qsgd.h"

namespace tern::kernels {
namespace {

// The upper 16 bits of each element's 32 random bits (philox.h). One block of the random number
// generator serves 8 neighbouring elements, so BitsOf is fastest if the elements ascend.
class RandomBits {
 public:
  explicit RandomBits(const NoiseKey& key) : key_(key) {}

  // Returns the 16 bits of an element.
  uint32_t BitsOf(uint64_t element) {
    if (const uint64_t block = element / 8; block != block_) {
      block_ = block;
      words_ = NoiseBlock(key_, static_cast<uint32_t>(block), 0);
    }
    return words_[element % 8 / 2] >> (16 * (element % 2)) & 0xFFFF;
  }

 private:
  NoiseKey key_;
  uint64_t block_ = ~uint64_t{0};
  std::array<uint32_t, 4> words_{};
};

}  // namespace

void EncodeQsgdRef(const float* v, size_t n, bool uses_intervals, const QsgdBucket& bucket,
                   const NoiseKey& key, uint64_t first, uint32_t* codes) {
  if (!(bucket.norm > 0)) {
    std::fill_n(codes, n, 0);
    return;
  }
  RandomBits random_bits(key);
  const uint32_t sign_bit = uses_intervals ? 0 : uint32_t{1} << (bucket.width - 1);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t element = first + i;
    const uint32_t level = QsgdLevel(uses_intervals, v[i], bucket, random_bits.BitsOf(element),
                                     [&] { return Draw16(key, element, 1); });
    codes[i] = v[i] < 0 && level > 0 ? level | sign_bit : level;
  }
}

bool DecodeQsgdRef(const uint32_t* codes, size_t n, bool uses_intervals, const QsgdBucket& bucket,
                   float* values) {
  if (!(bucket.norm > 0)) {
    std::fill_n(values, n, 0.0f);
    return std::all_of(codes, codes + n, [](uint32_t code) { return code == 0; });
  }
  const double unit = double{bucket.norm} / bucket.s;
  if (uses_intervals) {
    const int32_t intervals = (int32_t{1} << bucket.width) - 1;
    for (size_t i = 0; i < n; ++i)
      values[i] = QsgdValue(2 * static_cast<int32_t>(codes[i]) - intervals, unit);
    return true;
  }
  const uint32_t sign_bit = uint32_t{1} << (bucket.width - 1);
  const auto max_level = static_cast<uint32_t>(std::ceil(bucket.s));
  bool is_valid = true;
  for (size_t i = 0; i < n; ++i)
    values[i] = QsgdValue(SignedQsgdLevel(codes[i], sign_bit, max_level, &is_valid), unit);
  return is_valid;
}

}  // namespace tern::kernels
